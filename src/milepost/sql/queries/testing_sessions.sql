-- How many sessions of clients a database has. Those of a process that was killed end a moment later.
select count(*)
from pg_stat_activity
where datname = %(database)s and pid <> pg_backend_pid() and backend_type = 'client backend'
