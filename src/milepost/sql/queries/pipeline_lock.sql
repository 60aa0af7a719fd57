-- If two drivers start concurrently, one registers its version, and the other then finds it.
select {schema}.await_lock(
  hashtextextended('milepost.pipeline.{schema}.' || %(pipeline)s, 0), 'pipeline ' || %(pipeline)s
)
