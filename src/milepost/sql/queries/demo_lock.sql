-- One demo at a time in a database: each drops the schema of the one before. Held by the session.
select pg_try_advisory_lock(hashtextextended('milepost.demo.{schema}', 0))
