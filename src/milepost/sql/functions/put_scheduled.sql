-- Put the job of a schedule, now. Returns its id, as put_bytes() does.
create or replace function {schema}.put_scheduled(schedule {schema}.schedules) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put_bytes(
    schedule.channel, schedule.content,
    coalesce(schedule.run_at, clock_timestamp() + schedule.delay),
    schedule.priority, schedule.max_attempts, schedule.unique_key, schedule.state,
    schedule.keep_for, replace => schedule.replace, unique_for => schedule.unique_for
  );
end;
$$;
