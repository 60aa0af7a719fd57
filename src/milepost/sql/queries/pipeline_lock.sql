-- If two drivers start concurrently, one registers its version, and the other then finds it.
select pg_advisory_xact_lock(hashtextextended('milepost.pipeline.{schema}.' || %(pipeline)s, 0))
