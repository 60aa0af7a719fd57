-- Every channel that has jobs or a policy. Counts all jobs: for operators, not for programs.
select
  coalesce(counted.channel, c.name)::text as name,
  coalesce(counted.ready, 0) as ready,
  coalesce(counted.scheduled, 0) as scheduled,
  coalesce(counted.running, 0) as running,
  coalesce(counted.dead, 0) as dead,
  extract(epoch from clock_timestamp() - counted.oldest_due)::float8 as oldest_due_seconds,
  coalesce(speed.rate, 0)::float8 as rate,
  c.max_concurrency,
  extract(epoch from c.release_interval)::float8 as release_seconds,
  c.max_size,
  coalesce(c.is_paused, false) as is_paused
from (
  select
    j.channel,
    count(*) filter (where j.status = 'ready') as ready,
    count(*) filter (where j.status = 'scheduled') as scheduled,
    count(*) filter (where j.status = 'running') as running,
    count(*) filter (where j.status = 'dead') as dead,
    min(j.run_at) filter (where j.status = 'ready') as oldest_due
  from {schema}.jobs as j
  where j.status not in ('done', 'cancelled')
  group by j.channel
) as counted
full join {schema}.channels as c on c.name = counted.channel
left join (
  select r.channel, sum(r.done_per_second) as rate
  from {schema}.channel_rates as r
  where r.reported_at > clock_timestamp() - interval '15 seconds'
  group by r.channel
) as speed on speed.channel = coalesce(counted.channel, c.name)
order by 1
