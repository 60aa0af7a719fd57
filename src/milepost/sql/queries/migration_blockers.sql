-- The sessions that hold locks on tables of the schema, or the lock of migrations, oldest first: those
-- that block a migration are among them. A role without pg_read_all_stats does not see the
-- applications and ages of others.
with lock as (
  select
    held.pid,
    held.virtualtransaction,
    case
      when held.locktype = 'advisory' then 'the lock of migrations' else class.relname::text
    end as target
  from pg_locks as held
  left join pg_class as class
    on class.oid = held.relation
    and class.relnamespace = to_regnamespace(%(schema)s)
    and class.relkind in ('r', 'p', 'S')
  cross join hashtextextended('milepost.migrate.' || %(schema)s, 0) as migration
  where held.granted
    and held.database = (select oid from pg_database where datname = current_database())
    and held.pid is distinct from pg_backend_pid()
    and (
      held.locktype = 'relation' and class.oid is not null
      or held.locktype = 'advisory' and held.objsubid = 1
      and held.classid::bigint = (migration >> 32) & 4294967295
      and held.objid::bigint = migration & 4294967295
    )
)
select
  lock.pid,
  coalesce(activity.application_name, ''),
  coalesce(activity.usename::text, ''),
  coalesce(activity.state, case when lock.pid is null then 'prepared' else 'unknown' end),
  extract(epoch from clock_timestamp() - min(activity.xact_start))::double precision,
  array_agg(distinct lock.target order by lock.target)
from lock
left join pg_stat_activity as activity on activity.pid = lock.pid
group by lock.pid, lock.virtualtransaction, activity.application_name, activity.usename,
  activity.state
order by 5 desc nulls last
