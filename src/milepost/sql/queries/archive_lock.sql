-- One change of the manifest at a time. Two that meet in a row would fail at its foreign key: a range is
-- checked against the end of another that is being replaced.
select {schema}.await_lock(
  hashtextextended('milepost.archive.{schema}', 0), 'the manifest of the archive', seconds => 60
)
