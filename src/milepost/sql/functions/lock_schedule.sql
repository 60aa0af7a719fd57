-- Wait, for the lock_timeout of the caller, until no other session registers this schedule, of
-- whichever release. Anybody who may connect can take an advisory lock: so the error names who has it.
create or replace function {schema}.lock_schedule(name text) returns void
language plpgsql volatile as $$
declare
  key constant bigint :=
    hashtextextended(lock_schedule.name, '{schema}.schedules'::regclass::oid::bigint);
begin
  perform pg_advisory_xact_lock(key);
exception when lock_not_available then
  raise exception 'schedule % was not registered: another session holds its advisory lock (pid %)',
    lock_schedule.name,
    (
      select string_agg(l.pid::text, ', ') from pg_locks as l
      where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and (l.classid::bigint << 32) | l.objid::bigint = key
    )
    using errcode = 'lock_not_available',
      hint = 'Registering takes milliseconds. End a session that holds it longer: '
        'select pg_terminate_backend(pid).';
end;
$$;
