-- For the session: what they limit must not be in a transaction.
select
  set_config('lock_timeout', %(lock_timeout)s, false), set_config('statement_timeout', '0', false)
