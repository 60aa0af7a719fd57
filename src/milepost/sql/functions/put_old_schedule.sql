-- A job is put into a reserved channel: the release before this one registers a schedule.
-- Everything else is refused. A schedule is a row of schedules or such a job, never both, so a row
-- becomes a job again here, with the same next tick: who registered a schedule last, ticks it.
-- `is_put`: whether to put the job. A row that is paused stays, and there is no job.
--
-- A role without privileges on the new table, because nobody has granted them since the migration,
-- puts the job.
create or replace function {schema}.put_old_schedule(
  channel text, content bytea, run_at timestamptz, unique_key text, state bytea
) returns table (is_put boolean, job_run_at timestamptz, job_state bytea)
language plpgsql volatile
-- Longer than that of register_schedule(), which tries again and gives way.
set lock_timeout = '5s'
as $$
#variable_conflict use_column
declare
  asked record;
  known record;
begin
  select o.every, o.cron, o.timezone into asked
  from {schema}.old_schedule_times(put_old_schedule.content) as o;
  if put_old_schedule.channel <> 'milepost.schedules' or put_old_schedule.unique_key is null
    or not found
  then
    perform {schema}.refuse_reserved(array[put_old_schedule.channel]);
  end if;
  is_put := true;
  job_run_at := put_old_schedule.run_at;
  job_state := put_old_schedule.state;
  if has_table_privilege('{schema}.schedules', 'delete') then
    perform {schema}.await_lock(
    hashtextextended(put_old_schedule.unique_key, '{schema}.schedules'::regclass::oid::bigint),
    format('the schedule %L', put_old_schedule.unique_key)
  );
    delete from {schema}.schedules as s
    where s.name = put_old_schedule.unique_key collate "C" and not s.is_paused
    returning s.every, s.cron, s.timezone, s.begun_at, s.next_at into known;
    if not found then
      is_put := not exists (
        select from {schema}.schedules as s
        where s.name = put_old_schedule.unique_key collate "C"
      );
    elsif known.every is not distinct from asked.every
      and known.cron is not distinct from asked.cron
      and known.timezone is not distinct from asked.timezone
    then
      job_run_at := known.next_at;
      job_state := convert_to(to_json(known.begun_at)::text, 'UTF8');
    end if;
  end if;
  return next;
end;
$$;
