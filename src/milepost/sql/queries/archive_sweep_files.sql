-- Nobody is between a look for a file and adding it to the manifest (archive_keep_files) until the end of
-- this transaction: what the manifest does not name now, it will not name later.
select {schema}.await_lock(
  hashtextextended('milepost.archive.files.{schema}', 0), 'the files of the archive', seconds => 60
)
