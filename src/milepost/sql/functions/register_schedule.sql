-- Register a schedule of an application: add it, or replace what was registered under its name.
-- If its times are the same as before, it keeps its next tick; otherwise `first_at` is the first
-- one. A paused schedule stays paused. Without an owner it is not marked as seen.
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
set lock_timeout = '10s'
as $$
#variable_conflict use_column
begin
  insert into {schema}.schedules as s (
    name, every, cron, timezone, begun_at, next_at, channel, content, run_at, delay, priority,
    max_attempts, unique_key, state, keep_for, replace, unique_for, registered_by, last_seen_at
  ) values (
    register_schedule.name, register_schedule.every, register_schedule.cron,
    register_schedule.timezone, register_schedule.begun_at, register_schedule.first_at,
    register_schedule.channel, register_schedule.content, register_schedule.run_at,
    register_schedule.delay, register_schedule.priority, register_schedule.max_attempts,
    register_schedule.unique_key, register_schedule.state, register_schedule.keep_for,
    register_schedule.replace, register_schedule.unique_for, register_schedule.owner,
    case when register_schedule.owner is not null then clock_timestamp() end
  )
  on conflict (name) do update set
    every = excluded.every,
    cron = excluded.cron,
    timezone = excluded.timezone,
    -- Of the row as it is now, not as it was when this statement began: another process may have
    -- registered it meanwhile, and a tick may have been put.
    (begun_at, next_at) = (
      select case when o.is_same then s.begun_at else excluded.begun_at end,
        case when o.is_same then s.next_at else excluded.next_at end
      from (
        select (s.every, s.cron, s.timezone)
          is not distinct from (excluded.every, excluded.cron, excluded.timezone)
      ) as o (is_same)
    ),
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
