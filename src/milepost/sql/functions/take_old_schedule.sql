-- Take a schedule over from the release before this one: delete its job, and return the times with
-- which it goes on. No row if there is no such job.
--
-- Each tick is put once, because the job is deleted. A tick that is under way finds no job to
-- defer, and is rolled back. For a tick that is about to commit this waits, and then reads the time
-- that it has set.
create or replace function {schema}.take_old_schedule(name text) returns table (
  every interval, cron text, timezone text, begun_at timestamptz, next_at timestamptz,
  is_paused boolean
)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
  with taken as (
    delete from {schema}.jobs as j
    where j.channel = 'milepost.schedules' and j.unique_key = take_old_schedule.name collate "C"
      and j.status in ('ready', 'scheduled', 'running')
    returning j.content, j.state, j.run_at
  )
  select
    o.every, o.cron, o.timezone, (convert_from(t.state, 'UTF8')::json #>> '{}')::timestamptz,
    t.run_at,
    exists (
      select from {schema}.channels as c where c.name = 'milepost.schedules' and c.is_paused
    )
  from taken as t
  left join lateral {schema}.old_schedule_times(t.content) as o on true;
end;
$$;
