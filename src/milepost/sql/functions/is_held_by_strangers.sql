-- Whether the lock of a processor's turn is held, and only by sessions whose role may not process: any
-- role that may connect can take it. Its holder is compared with our own role, too: that one may have
-- its privileges by SET ROLE. Two numbers, as the turn's lock has.
create or replace function {schema}.is_held_by_strangers(high integer, low integer) returns boolean
language sql volatile as $$
  select coalesce(bool_and(
    activity.usename <> session_user
    and not has_column_privilege(activity.usesysid, '{schema}.checkpoints', 'position', 'update')
  ), false)
  from pg_locks as held
  join pg_stat_activity as activity on activity.pid = held.pid
  where held.locktype = 'advisory' and held.objsubid = 2 and held.granted
    and held.database = (select oid from pg_database where datname = current_database())
    and held.classid::bigint = high::bigint & 4294967295
    and held.objid::bigint = low::bigint & 4294967295
$$;
