-- Register a schedule of an application: add it, or replace what was registered under its name.
-- If its times are the same as before, it keeps its next tick; otherwise `first_at` is the first
-- one. A paused schedule stays paused. Without an owner it is not marked as seen.
--
-- If the release before this one has the schedule as a job, it is taken over from there. The time
-- limit is shorter than deadlock_timeout: if both releases wait for each other, this session gives
-- up and tries again, and the other one goes on.
create or replace function {schema}.register_schedule(
  name text,
  every interval,
  cron text,
  timezone text,
  begun_at timestamptz,
  first_at timestamptz,
  channel text,
  content bytea,
  run_at timestamptz default null,
  delay interval default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state bytea default null,
  keep_for interval default null,
  replace boolean default false,
  unique_for interval default null,
  owner text default null
) returns void
language plpgsql volatile
set lock_timeout = '500ms'
as $$
#variable_conflict use_column
declare
  known record;
  starts_paused boolean := false;
begin
  perform {schema}.await_lock(
    hashtextextended(register_schedule.name, '{schema}.schedules'::regclass::oid::bigint),
    format('the schedule %L', register_schedule.name)
  );
  select o.every, o.cron, o.timezone, o.begun_at, o.next_at, o.is_paused into known
  from {schema}.take_old_schedule(register_schedule.name) as o;
  if found then
    starts_paused := known.is_paused;
  else
    select s.every, s.cron, s.timezone, s.begun_at, s.next_at into known
    from {schema}.schedules as s
    where s.name = register_schedule.name collate "C"
    for update;
  end if;
  if found and known.every is not distinct from register_schedule.every
    and known.cron is not distinct from register_schedule.cron
    and known.timezone is not distinct from register_schedule.timezone
  then
    register_schedule.begun_at := coalesce(known.begun_at, register_schedule.begun_at);
    register_schedule.first_at := known.next_at;
  end if;
  insert into {schema}.schedules as s (
    name, every, cron, timezone, begun_at, next_at, channel, content, run_at, delay, priority,
    max_attempts, unique_key, state, keep_for, replace, unique_for, is_paused, registered_by, last_seen_at
  ) values (
    register_schedule.name, register_schedule.every, register_schedule.cron,
    register_schedule.timezone, register_schedule.begun_at, register_schedule.first_at,
    register_schedule.channel, register_schedule.content, register_schedule.run_at,
    register_schedule.delay, register_schedule.priority, register_schedule.max_attempts,
    register_schedule.unique_key, register_schedule.state, register_schedule.keep_for,
    register_schedule.replace, register_schedule.unique_for, starts_paused, register_schedule.owner,
    case when register_schedule.owner is not null then clock_timestamp() end
  )
  on conflict (name) do update set
    every = excluded.every,
    cron = excluded.cron,
    timezone = excluded.timezone,
    begun_at = excluded.begun_at,
    next_at = excluded.next_at,
    channel = excluded.channel,
    content = excluded.content,
    run_at = excluded.run_at,
    delay = excluded.delay,
    priority = excluded.priority,
    max_attempts = excluded.max_attempts,
    unique_key = excluded.unique_key,
    state = excluded.state,
    keep_for = excluded.keep_for,
    replace = excluded.replace,
    unique_for = excluded.unique_for,
    -- What kept it from ticking may have been repaired: try again soon.
    retry_at = null,
    registered_by = excluded.registered_by,
    registered_at = clock_timestamp(),
    last_seen_at = coalesce(excluded.last_seen_at, s.last_seen_at);
end;
$$;
