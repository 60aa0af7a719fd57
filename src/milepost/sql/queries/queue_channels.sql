-- All channels that have jobs or a policy, and all families that have one. The limits are those
-- that apply. Counts all jobs: for operators, not for programs.
select
  listed.name::text as name,
  coalesce(counted.ready, 0) as ready,
  coalesce(counted.scheduled, 0) as scheduled,
  coalesce(counted.waiting, 0) as waiting,
  coalesce(counted.running, 0) as running,
  coalesce(counted.dead, 0) as dead,
  extract(epoch from clock_timestamp() - counted.oldest_due)::float8 as oldest_due_seconds,
  coalesce(speed.rate, 0)::float8 as rate,
  p.max_concurrency,
  extract(epoch from p.release_interval)::float8 as release_seconds,
  p.max_size,
  coalesce(c.is_paused or p.is_paused, false) as is_paused,
  case when p.name <> listed.name then p.name::text end as family,
  p.max_concurrency_total,
  p.rate_count,
  extract(epoch from p.rate_period)::float8 as rate_seconds,
  p.rate_burst,
  extract(epoch from u.keep_dead_for)::float8 as keep_dead_seconds,
  extract(epoch from u.ageing)::float8 as ageing_seconds
from (
  select j.channel as name from {schema}.jobs as j
  where j.status not in ('done', 'cancelled')
  union
  select o.name from {schema}.channels as o where o.is_policy or o.is_paused
  union
  select o.name from {schema}.channel_upkeep as o
  where o.keep_dead_for is not null or o.ageing is not null
) as listed
left join (
  select
    j.channel,
    count(*) filter (where j.status = 'ready') as ready,
    count(*) filter (where j.status = 'scheduled') as scheduled,
    count(*) filter (where j.status = 'waiting') as waiting,
    count(*) filter (where j.status = 'running') as running,
    count(*) filter (where j.status = 'dead') as dead,
    min({schema}.in_range(j.run_at)) filter (where j.status = 'ready') as oldest_due
  from {schema}.jobs as j
  where j.status not in ('done', 'cancelled')
  group by j.channel
) as counted on counted.channel = listed.name
left join {schema}.channels as c on c.name = listed.name
left join {schema}.channel_upkeep as u on u.name = listed.name
left join lateral {schema}.family_of(listed.name) as f on not coalesce(c.is_policy, false)
left join {schema}.channels as p
  on p.name = case when c.is_policy then c.name else f.family collate "C" end
left join (
  select r.channel, sum(r.done_per_second) as rate
  from {schema}.channel_rates as r
  where r.reported_at > clock_timestamp() - interval '15 seconds'
  group by r.channel
) as speed on speed.channel = listed.name
order by 1
