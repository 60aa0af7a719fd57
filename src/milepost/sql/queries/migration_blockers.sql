-- The sessions that hold locks on tables of the schema, oldest first: those that block a migration
-- are among them. A role without pg_read_all_stats does not see the applications and ages of
-- others.
select
  lock.pid,
  coalesce(activity.application_name, ''),
  coalesce(activity.usename::text, ''),
  coalesce(activity.state, case when lock.pid is null then 'prepared' else 'unknown' end),
  extract(epoch from clock_timestamp() - min(activity.xact_start))::double precision,
  array_agg(distinct class.relname::text order by class.relname::text)
from pg_locks as lock
join pg_class as class on class.oid = lock.relation
left join pg_stat_activity as activity on activity.pid = lock.pid
where lock.locktype = 'relation'
  and lock.granted
  and lock.database = (select oid from pg_database where datname = current_database())
  and class.relnamespace = to_regnamespace(%(schema)s)
  and class.relkind in ('r', 'p', 'S')
  and lock.pid is distinct from pg_backend_pid()
group by lock.pid, lock.virtualtransaction, activity.application_name, activity.usename,
  activity.state
order by 5 desc nulls last
