-- Of two drivers that begin at once, one makes the table and the view; the other then finds them.
select pg_advisory_xact_lock(
  hashtextextended('milepost.target.' || %(target_schema)s || '.' || %(view_name)s, 0)
)
