-- For the rest of the transaction.
select
  set_config('statement_timeout', %(statement_timeout)s, true),
  set_config('lock_timeout', %(lock_timeout)s, true)
