-- The schedules that are due, or will be within some seconds: `wait_seconds` from now.
select
  s.name::text as name, s.every, s.cron, s.timezone, s.begun_at, s.next_at, s.failures,
  clock_timestamp() as now,
  extract(epoch from greatest(s.next_at, s.retry_at) - clock_timestamp())::float8 as wait_seconds
from {schema}.schedules as s
where not s.is_paused
  and s.next_at <= statement_timestamp() + make_interval(secs => %(within_seconds)s)
order by s.next_at, s.name
