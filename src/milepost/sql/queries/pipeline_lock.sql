-- Of two that begin at once, one registers its version; the other then finds it.
select pg_advisory_xact_lock(hashtextextended('milepost.pipeline.{schema}.' || %(pipeline)s, 0))
