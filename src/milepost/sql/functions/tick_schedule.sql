-- Put the job of a schedule's tick, and move the schedule to its next tick: both or neither.
-- Returns the id of the job; null if nothing was put, because the tick is not due, was put already,
-- or is being put by another session now.
--
-- `due_at` is the fence: of all who saw the tick, the first that gets the lock moves next_at, and
-- the others find another one. SKIP LOCKED: another session holds the row, and puts this tick.
--
-- One call is one transaction. So a scheduler that dies, freezes or loses its network between two
-- calls holds nothing, and another one ticks immediately. A job with a unique key may have to wait
-- for another transaction that put the same key; it waits at most for lock_timeout, because the
-- other schedules wait behind it.
create or replace function {schema}.tick_schedule(
  name text, due_at timestamptz, next_at timestamptz
) returns bigint
language plpgsql volatile
set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
  due {schema}.schedules;
  job_id bigint;
begin
  select s.* into due
  from {schema}.schedules as s
  where s.name = tick_schedule.name collate "C" and s.next_at = tick_schedule.due_at
    and s.next_at <= clock_timestamp() and not s.is_paused
  for update skip locked;
  if not found then
    return null;
  end if;
  job_id := {schema}.put_scheduled(due);
  update {schema}.schedules as s
  set next_at = tick_schedule.next_at, last_tick_at = clock_timestamp(), last_job_id = job_id,
    failures = 0, retry_at = null, last_error = null
  where s.name = due.name;
  return job_id;
end;
$$;
