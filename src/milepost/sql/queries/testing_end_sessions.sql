-- Of a database that is about to be copied: that is refused while somebody is connected to it.
select pg_terminate_backend(pid)
from pg_stat_activity
where datname = %(database)s and pid <> pg_backend_pid()
