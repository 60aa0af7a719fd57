-- The transactions that have locked jobs of these channels that are due: workers skip such jobs. Of
-- each channel, the first 100 of each status are looked at. The locker's id is in the row; a row that
-- several transactions have locked together, for sharing, has another id there and is not found.
select
  lock.pid,
  prepared.gid as prepared,
  activity.application_name as application,
  coalesce(activity.usename, prepared.owner)::text as username,
  case when lock.pid is null then 'prepared' else activity.state end as state,
  extract(
    epoch from clock_timestamp() - coalesce(activity.xact_start, prepared.prepared)
  )::float8 as age_seconds,
  array_agg(distinct due.channel::text) as channels,
  count(*) as jobs
from unnest(%(channels)s::text[]) as c (name)
cross join lateral (
  (
    select j.channel, j.xmax as locker from {schema}.jobs as j
    where j.status = 'ready' and j.channel = c.name collate "C"
    order by j.channel, j.priority, j.run_at, j.id
    limit 100
  )
  union all
  (
    select j.channel, j.xmax from {schema}.jobs as j
    where j.status = 'scheduled' and j.channel = c.name collate "C"
      and j.run_at <= statement_timestamp()
    order by j.channel, j.run_at
    limit 100
  )
) as due
join pg_locks as lock
  on lock.locktype = 'transactionid' and lock.transactionid = due.locker
  and lock.mode = 'ExclusiveLock' and lock.granted
left join pg_stat_activity as activity on activity.pid = lock.pid
left join pg_prepared_xacts as prepared
  on lock.pid is null and prepared.transaction = due.locker
group by 1, 2, 3, 4, 5, 6
order by count(*) desc
