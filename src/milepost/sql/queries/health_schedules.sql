-- Schedules are jobs that never complete; one that runs is being ticked just now.
select
  coalesce(j.unique_key, j.id::text) as name,
  greatest(extract(epoch from clock_timestamp() - j.run_at), 0)::float8 as overdue_seconds
from {schema}.jobs as j
where j.channel = %(channel)s and j.status in ('ready', 'scheduled')
order by j.run_at, j.id
