-- All schedules, without what they put: that is content of jobs. Those that are still jobs of the
-- release before this one have no times here. A tick that is under way is not overdue.
select
  s.name::text as name, s.every, s.cron, s.timezone, s.begun_at, s.next_at,
  s.channel::text as channel, s.is_paused, s.last_tick_at, s.last_job_id, s.failures, s.retry_at, s.last_error,
  s.registered_by, s.registered_at, s.last_seen_at,
  greatest(extract(epoch from clock_timestamp() - s.next_at), 0)::float8 as overdue_seconds,
  extract(epoch from clock_timestamp() - s.last_seen_at)::float8 as unseen_seconds,
  false as is_old
from {schema}.schedules as s
where %(name)s::text is null or s.name = %(name)s
union all
select
  j.unique_key::text, null, null, null, j.run_at, j.run_at, j.channel::text,
  false, null, null, 0, null, null, null, j.run_at, null,
  case
    when j.status = 'running' then 0
    else greatest(extract(epoch from clock_timestamp() - j.run_at), 0)
  end::float8,
  null, true
from {schema}.jobs as j
where j.channel = 'milepost.schedules' and j.unique_key is not null
  and j.status in ('ready', 'scheduled', 'running')
  and (%(name)s::text is null or j.unique_key = %(name)s)
order by name
