-- What holds the horizon back: every transaction that has appended and not ended, the oldest
-- first. Without a pid: a prepared transaction. A transaction may have several floors.
create or replace function {schema}.horizon_holders() returns table (
  pid integer,
  prepared text,
  application text,
  username text,
  database text,
  state text,
  age interval,
  query text,
  remedy text
)
language sql volatile as $$
  select
    activity.pid,
    prepared.gid,
    activity.application_name,
    coalesce(activity.usename, prepared.owner)::text,
    coalesce(activity.datname, prepared.database)::text,
    case when activity.pid is null then 'prepared' else activity.state end,
    clock_timestamp() - coalesce(activity.xact_start, prepared.prepared),
    activity.query,
    case
      when activity.pid is not null then format('select pg_terminate_backend(%s)', activity.pid)
      else format('rollback prepared %L', prepared.gid)
    end
  from (select distinct virtualtransaction, pid from {schema}.floors_held()) as lock
  left join pg_stat_activity as activity on activity.pid = lock.pid
  -- A prepared transaction is identified by the lock on its own id, which it keeps too; the virtual
  -- id of both locks is its session's, or -1 and its own id after a restart.
  left join (
    pg_locks as own_id join pg_prepared_xacts as prepared
      on own_id.locktype = 'transactionid' and own_id.transactionid = prepared.transaction
  ) on lock.pid is null
    and own_id.pid is null
    and own_id.virtualtransaction = lock.virtualtransaction
  order by coalesce(activity.xact_start, prepared.prepared)
$$;
