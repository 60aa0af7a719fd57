-- The gauges of metrics(), of the first channels that have jobs, and all channels and families that
-- have a policy or an upkeep: by rank and name. The limits are those that apply. Of a named channel, what
-- is estimated among all is counted.
with queue as materialized (
  select {schema}.metrics(array['queue'], %(max_channels)s, %(max_counted)s) -> 'queue' as gauges
),
counted as materialized (
  select g.*
  from queue as q
  cross join lateral json_to_recordset(q.gauges -> 'channels') as g (
    name text, ready bigint, scheduled bigint, waiting bigint, running bigint, dead bigint,
    overdue bigint, estimated text[], rank integer, oldest_due_seconds float8, rate float8
  )
),
own as materialized (
  select
    jsonb_object_agg(s.status, n.number) as numbers,
    coalesce(array_agg(s.status) filter (where n.number >= b.bound), '{}') as estimated
  from (select coalesce(%(max_counted)s::integer, 250000) as bound) as b
  cross join unnest(array['ready', 'scheduled', 'waiting', 'running', 'dead']) as s (status)
  cross join lateral {schema}.count_jobs(
    %(name)s, array[s.status]::{schema}.job_status[], b.bound
  ) as n (number)
  where %(name)s::text is not null
)
select
  listed.name::text as name,
  coalesce((own.numbers ->> 'ready')::bigint, counted.ready, 0) as ready,
  coalesce((own.numbers ->> 'scheduled')::bigint, counted.scheduled, 0) as scheduled,
  coalesce((own.numbers ->> 'waiting')::bigint, counted.waiting, 0) as waiting,
  coalesce((own.numbers ->> 'running')::bigint, counted.running, 0) as running,
  coalesce((own.numbers ->> 'dead')::bigint, counted.dead, 0) as dead,
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
  coalesce(counted.overdue, 0) as overdue,
  case when own.numbers is null then coalesce(counted.estimated, '{}') else own.estimated end
    as estimated,
  coalesce(counted.rank, 3) as rank
from (
  select g.name collate "C" as name from counted as g
  union
  select o.name from {schema}.channels as o where o.is_policy or o.is_paused
  union
  select o.name from {schema}.channel_upkeep as o
  where o.keep_dead_for is not null or o.ageing is not null
) as listed
cross join own
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
order by coalesce(counted.rank, 3), 1
