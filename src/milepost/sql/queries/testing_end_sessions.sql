-- Of a database that is about to be copied, which is refused while a client is connected to it, or
-- dropped. The server ends its own processes there by itself; only a superuser could do that.
select pg_terminate_backend(pid)
from pg_stat_activity
where datname = %(database)s and pid <> pg_backend_pid() and backend_type = 'client backend'
