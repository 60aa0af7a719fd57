-- One change of the manifest at a time. Two that meet in a row would fail at its foreign key: a range is
-- checked against the end of another that is being replaced.
select pg_advisory_xact_lock(hashtextextended('milepost.archive.{schema}', 0))
