-- If two drivers start concurrently, one creates the table and the view, and the other then finds
-- them.
select pg_advisory_xact_lock(
  hashtextextended('milepost.target.' || %(target_schema)s || '.' || %(view_name)s, 0)
)
