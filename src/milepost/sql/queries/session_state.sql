-- What a program may have left in its session. With settings of its own it is never equal to itself
-- without them: they are lost when it is reset.
select
  current_user, session_user,
  (select count(*) from pg_settings as s where s.source = 'session'),
  (select count(*) from pg_listening_channels()),
  (select count(*) from pg_locks as l where l.pid = pg_backend_pid() and l.locktype = 'advisory'),
  (select count(*) from pg_class as c where c.relnamespace = pg_my_temp_schema()),
  (select count(*) from pg_cursors as c where c.is_holdable),
  (select count(*) from pg_prepared_statements as p where p.from_sql)
