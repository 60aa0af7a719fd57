-- How many sessions a database has. Those of a process that was killed end a moment later.
select count(*) from pg_stat_activity where datname = %(database)s and pid <> pg_backend_pid()
