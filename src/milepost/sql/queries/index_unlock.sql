select pg_advisory_unlock(hashtextextended('milepost.index.{schema}', 0))
