-- One demo at a time in a database: each drops the schema of the previous one. A session-level
-- lock.
select pg_try_advisory_lock(hashtextextended('milepost.demo.{schema}', 0))
