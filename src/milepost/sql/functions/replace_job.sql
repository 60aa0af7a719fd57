-- Called for an insert into job_replacements: the job that has the unique key, and has not begun,
-- becomes what is put instead. No row, if there is none: it may have begun meanwhile. Runs with the
-- privileges of the owner, because a role that puts jobs may not change others. Its row is locked
-- until the commit, so that nobody takes what may not stay as it was.
create or replace function {schema}.replace_job() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  new_status {schema}.job_status;
begin
  update {schema}.jobs as j
  set content = new.content, state = new.state,
    run_at = coalesce(new.run_at, clock_timestamp()),
    priority = new.priority, max_attempts = new.max_attempts,
    keep_for = new.keep_for, unique_for = new.unique_for, trace = new.trace,
    failures = 0, last_error = null,
    status = case
      when j.status = 'waiting' then 'waiting'
      when new.run_at > clock_timestamp() then 'scheduled'
      else 'ready'
    end::{schema}.job_status
  where j.status in ('ready', 'scheduled', 'waiting') and j.id = (
    select h.id from {schema}.key_holder(new.channel, new.unique_key) as h
  )
  returning j.id, j.status into new.id, new_status;
  if not found then
    return null;
  end if;
  if new_status = 'ready' then
    perform pg_notify(concat({channel}, '_queue'), '');
  end if;
  return new;
end;
$$;
