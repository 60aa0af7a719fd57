-- All schedules, without what they put: that is content of jobs.
select
  s.name::text as name, s.every, s.cron, s.timezone, s.begun_at, s.next_at,
  s.channel::text as channel, s.is_paused, s.last_tick_at, s.last_job_id, s.failures, s.retry_at, s.last_error,
  s.registered_by, s.registered_at, s.last_seen_at,
  greatest(extract(epoch from clock_timestamp() - s.next_at), 0)::float8 as overdue_seconds,
  extract(epoch from clock_timestamp() - s.last_seen_at)::float8 as unseen_seconds
from {schema}.schedules as s
where %(name)s::text is null or s.name = %(name)s
order by name
