-- One migrating process at a time for each schema of a database. Waited for as a table is: a short
-- time, and then again, so that somebody is told who holds it.
select pg_advisory_xact_lock(hashtextextended('milepost.migrate.' || %(schema)s, 0))
from set_config('lock_timeout', %(lock_timeout)s, true)
