-- The gauges of metrics(), of the deepest channels that have jobs; and all channels and families that
-- have a policy or an upkeep. The limits are those that apply.
with queue as materialized (
  select {schema}.metrics(array['queue'], %(max_channels)s, %(max_counted)s) -> 'queue' as gauges
),
counted as materialized (
  select g.*
  from queue as q
  cross join lateral json_to_recordset(q.gauges -> 'channels') as g (
    name text, ready bigint, scheduled bigint, waiting bigint, running bigint, dead bigint,
    oldest_due_seconds float8, rate float8
  )
)
select
  listed.name::text as name,
  coalesce(counted.ready, 0) as ready,
  coalesce(counted.scheduled, 0) as scheduled,
  coalesce(counted.waiting, 0) as waiting,
  coalesce(counted.running, 0) as running,
  coalesce(counted.dead, 0) as dead,
  counted.oldest_due_seconds,
  coalesce(counted.rate, speed.rate, 0)::float8 as rate,
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
  extract(epoch from u.ageing)::float8 as ageing_seconds,
  (select (q.gauges ->> 'is_exact')::boolean from queue as q) as is_exact
from (
  select g.name collate "C" as name from counted as g
  union
  select o.name from {schema}.channels as o where o.is_policy or o.is_paused
  union
  select o.name from {schema}.channel_upkeep as o
  where o.keep_dead_for is not null or o.ageing is not null
) as listed
left join counted on counted.name = listed.name
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
where %(name)s::text is null or listed.name = %(name)s
order by 1
