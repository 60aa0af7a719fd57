-- Take back the jobs whose lock has expired: their worker is gone, or too slow. They wait again in
-- their channel, and are taken by its rules like any other, so neither its limits nor the rotation
-- are passed by. A job that has failed `max_attempts` times so far is set aside as dead: here, so
-- that a job that kills its workers ends. One that was asked to stop has stopped. SKIP LOCKED: it is
-- being completed or extended just now.
--
-- Nobody is left to say that these attempts failed, so whoever takes them back is told, by notices
-- (of SQLSTATE MP090), and workers log them.
create or replace function {schema}.recover_expired(max_count integer default 1000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  number bigint := 0;
  taken_back record;
begin
  for taken_back in
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
    returning j.id, j.channel, j.attempt, j.failures, j.status, j.last_error
  loop
    number := number + 1;
    if taken_back.status <> 'cancelled' then
      raise notice 'job=% channel=% attempt=% failures=% %: %',
        taken_back.id, taken_back.channel, taken_back.attempt, taken_back.failures,
        case taken_back.status when 'dead' then 'dead' else 'failed' end, taken_back.last_error
        using errcode = 'MP090', detail = taken_back.status::text;
    end if;
  end loop;
  return number;
end;
$$;
