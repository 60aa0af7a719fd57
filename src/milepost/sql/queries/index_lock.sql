-- One process at a time. Not waited for: an index is created without a lock on appenders by waiting
-- for all transactions that were open before, and a session that waits for a lock is one of them.
select pg_try_advisory_lock(hashtextextended('milepost.index.{schema}', 0))
