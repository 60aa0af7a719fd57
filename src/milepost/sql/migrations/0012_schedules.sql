-- Schedules as rows of their own (docs/decisions/0022). Until now a schedule was a job of the
-- channel milepost.schedules. Such jobs are not touched here: the release before this one goes on
-- ticking them, until this one registers the schedule (see functions/register_schedule.sql).

-- When: every so long, counted from begun_at, or at the times of a cron expression. next_at is the
-- next tick; who moves it has put the job of that tick. What: the arguments of put_bytes().
-- While ticks fail, next_at stays and retry_at moves. last_seen_at: when an application that has
-- the schedule in its code last ran.
create table {schema}.schedules (
  name text collate "C" not null,
  every interval,
  cron text,
  timezone text,
  begun_at timestamptz not null,
  next_at timestamptz not null,
  channel text collate "C" not null,
  content bytea not null,
  run_at timestamptz,
  delay interval,
  priority integer not null default 0,
  max_attempts integer not null default 25,
  unique_key text collate "C",
  state bytea,
  keep_for interval,
  replace boolean not null default false,
  unique_for interval,
  is_paused boolean not null default false,
  last_tick_at timestamptz,
  last_job_id bigint,
  failures integer not null default 0,
  retry_at timestamptz,
  last_error text,
  registered_by text,
  registered_at timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz,
  constraint schedules_pkey primary key (name),
  constraint schedules_name_length check (char_length(name) between 1 and 1024),
  constraint schedules_when check (
    (every is null) <> (cron is null) and (cron is null) = (timezone is null)
  ),
  constraint schedules_every check (every > interval '0'),
  -- What Python can read: one row that it cannot read would stop all the others.
  constraint schedules_times check (
    begun_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00'
    and next_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00'
    and (retry_at is null or retry_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00')
  )
) with (fillfactor = 50);

create index schedules_next on {schema}.schedules (next_at) where not is_paused;
