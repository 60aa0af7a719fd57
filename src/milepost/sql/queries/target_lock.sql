-- If two drivers start concurrently, one creates the table and the view, and the other then finds
-- them.
select {schema}.await_lock(
  hashtextextended('milepost.target.' || %(target_schema)s || '.' || %(view_name)s, 0),
  'target ' || %(view_name)s
)
