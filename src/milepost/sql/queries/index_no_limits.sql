reset lock_timeout; reset statement_timeout
