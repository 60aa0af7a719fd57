-- The sessions that wait for a lock, and the sessions they wait for; among those that have locked,
-- or want to lock, something in this schema. The locks are read once.
with locks as materialized (
  select pid, locktype, database, relation, classid, granted, waitstart from pg_locks
),
concerned as (
  select locks.pid from locks
  where locks.database = (select oid from pg_database where datname = current_database())
    and (
      locks.relation in (select oid from pg_class where relnamespace = '{schema}'::regnamespace)
      or (locks.locktype = 'advisory' and locks.classid = '{schema}.messages'::regclass)
    )
),
waiting as materialized (
  select locks.pid, min(locks.waitstart) as since, pg_blocking_pids(locks.pid) as blocked_by
  from locks
  where not locks.granted and locks.pid in (select pid from concerned)
  group by locks.pid
)
select
  activity.pid,
  activity.application_name,
  activity.usename::text,
  activity.datname::text,
  activity.state,
  extract(epoch from clock_timestamp() - activity.xact_start)::float8 as age_seconds,
  activity.query,
  extract(epoch from clock_timestamp() - waiting.since)::float8 as waited_seconds,
  coalesce(waiting.blocked_by, '{}') as blocked_by
from pg_stat_activity as activity
left join waiting on waiting.pid = activity.pid
-- No session blocks it: it got the lock between the two reads.
where cardinality(waiting.blocked_by) > 0
  or activity.pid in (select unnest(blocked_by) from waiting)
order by activity.xact_start
