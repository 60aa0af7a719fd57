-- Take back the jobs whose lock has expired: their worker is gone, or too slow. They wait again in
-- their channel, and are taken by its rules like any other, so neither its limits nor the rotation
-- are passed by. A job that has failed `max_attempts` times so far is set aside as dead: here, so
-- that a job that kills its workers ends. One that was asked to stop has stopped. SKIP LOCKED: it is
-- being completed or extended just now.
create or replace function {schema}.recover_expired(max_count integer default 1000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  number bigint;
begin
  with recovered as (
    update {schema}.jobs as j
    set status = case
        when j.is_cancelled then 'cancelled'
        when j.failures + 1 >= j.max_attempts then 'dead'
        else 'ready'
      end::{schema}.job_status,
      failures = j.failures + 1,
      locked_until = null,
      finished_at = case
        when j.is_cancelled or j.failures + 1 >= j.max_attempts then clock_timestamp()
      end,
      kept_until = case
        when j.is_cancelled then clock_timestamp() + coalesce(j.keep_for, interval '0')
      end,
      last_error = 'the lock expired: the worker was gone or too slow'
    from (
      select d.id from {schema}.jobs as d
      where d.status = 'running' and d.locked_until <= clock_timestamp()
      order by d.channel, d.taken
      limit recover_expired.max_count
      for update skip locked
    ) as expired
    where j.id = expired.id
    returning 1
  )
  select count(*) from recovered into number;
  return number;
end;
$$;
