-- Nothing is waited for without an archive.
select ({schema}.archive_end() >= row(%(transaction_id)s, %(position)s)::{schema}.position)
  is not false
