-- Take an advisory lock until the end of the transaction, and wait for it at most `seconds`, or as long
-- as the session's lock_timeout allows. Advisory locks have no owner: any role that may connect can
-- hold one of ours, so the error names who does.
create or replace function {schema}.await_lock(
  lock bigint, purpose text, is_shared boolean default false, seconds integer default 10
) returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  own constant text := current_setting('lock_timeout');
begin
  if is_shared and pg_try_advisory_xact_lock_shared(lock)
    or not is_shared and pg_try_advisory_xact_lock(lock)
  then
    return true;
  end if;
  if own = '0' then
    perform set_config('lock_timeout', seconds || 's', true);
  end if;
  if is_shared then
    perform pg_advisory_xact_lock_shared(lock);
  else
    perform pg_advisory_xact_lock(lock);
  end if;
  perform set_config('lock_timeout', own, true);
  return true;
exception
  when lock_not_available then
    raise exception '% is locked by %', purpose, coalesce(
      (
        select string_agg(
          coalesce('pid ' || held.pid || ' (role ' || activity.usename || ', ' || activity.application_name || ')', 'a prepared transaction'),
          ', '
        )
        from pg_locks as held
        left join pg_stat_activity as activity on activity.pid = held.pid
        where held.locktype = 'advisory' and held.objsubid = 1 and held.granted
          and held.database = (select d.oid from pg_database as d where d.datname = current_database())
          and held.classid::bigint = (lock >> 32) & 4294967295
          and held.objid::bigint = lock & 4294967295
      ),
      'a session that has ended it since'
    )
      using errcode = 'lock_not_available',
      hint = 'Nothing was done. Try again when the session has ended its transaction, or end it: select pg_terminate_backend(PID)';
end;
$$;
