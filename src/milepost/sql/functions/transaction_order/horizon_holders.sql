-- What holds the horizon back: every transaction of the cluster that has an id and has not ended,
-- oldest first; in other databases too. Without a pid: a prepared transaction.
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
  select *
  from (
    select
      activity.pid,
      null::text as prepared,
      activity.application_name as application,
      activity.usename::text as username,
      activity.datname::text as database,
      activity.state,
      clock_timestamp() - activity.xact_start as age,
      activity.query,
      format('select pg_terminate_backend(%s)', activity.pid) as remedy
    from pg_stat_activity as activity
    where activity.backend_xid is not null
    union all
    select
      null, xact.gid, null, xact.owner::text, xact.database::text, 'prepared',
      clock_timestamp() - xact.prepared, null, format('rollback prepared %L', xact.gid)
    from pg_prepared_xacts as xact
  ) as holder
  order by age desc
$$;
