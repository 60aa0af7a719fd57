select
  count(*) filter (where j.status = 'ready') as ready,
  count(*) filter (where j.status = 'scheduled') as scheduled,
  count(*) filter (where j.status = 'waiting') as waiting,
  count(*) filter (where j.status = 'running') as running,
  count(*) filter (where j.status = 'dead') as dead,
  count(*) filter (where j.status in ('done', 'cancelled')) as kept,
  count(distinct j.channel) filter (
    where j.status in ('ready', 'scheduled', 'waiting', 'running')
  ) as channels,
  extract(epoch from clock_timestamp() - min({schema}.in_range(j.run_at)) filter (where j.status = 'ready'))
    ::float8 as oldest_due_seconds,
  (
    select coalesce(sum(r.done_per_second), 0)::float8 from {schema}.channel_rates as r
    where r.reported_at > clock_timestamp() - interval '15 seconds'
  ) as rate
from {schema}.jobs as j
