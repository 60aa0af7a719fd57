-- One migrating process at a time for each schema of a database.
select pg_advisory_xact_lock(hashtextextended('milepost.migrate.' || %(schema)s, 0))
