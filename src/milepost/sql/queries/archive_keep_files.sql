-- No file is swept until the end of this transaction. Shared: many may look for files and add them at the
-- same time, however slow an object store is; a sweep waits for all of them (archive_sweep_files).
select {schema}.await_lock(
  hashtextextended('milepost.archive.files.{schema}', 0), 'the files of the archive',
  is_shared => true, seconds => 60
)
