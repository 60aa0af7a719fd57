-- Recover the jobs whose lock has expired: their worker is gone, or too slow. They wait again in
-- their channel, and are taken by its rules like any other job, so that its limits and the rotation
-- hold. A job that was asked to stop is cancelled. SKIP LOCKED: the job is being completed or
-- extended now.
--
-- Only an attempt that had begun is a failure, and after `max_attempts` of them the job is dead. A
-- job that kills its worker takes others with it: those that ran beside it, and those that the
-- worker held ahead. So a job whose lock expires runs alone (see take_from) once that has happened
-- twice in a row, or before its last attempt: then it can blame no other. An attempt that would
-- have been the last is marked before it begins; without the mark it did not run, and nothing is
-- suspected.
--
-- A channel that waited for the begin of such a job counts its interval from the end of the lock: a
-- worker begins nothing after that.
--
-- No worker is left to report these attempts. So the caller gets notices (SQLSTATE MP090), and
-- workers log them.
create or replace function {schema}.recover_expired(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  reason constant text := 'the lock expired: the worker was gone or too slow';
  number bigint := 0;
  followed bigint[];  -- ended, and others wait for them
  taken_back record;
  awaiting text[] := '{}';
  lock_ends timestamptz[] := '{}';
begin
  for taken_back in
    update {schema}.jobs as j
    set status = case
        when j.is_cancelled then 'cancelled'
        when j.is_begun and j.failures + 1 >= j.max_attempts then 'dead'
        else 'ready'
      end::{schema}.job_status,
      failures = j.failures + j.is_begun::integer,
      crashes = case
        when not j.is_begun and j.failures + 1 >= j.max_attempts then j.crashes
        when j.is_begun and j.failures + 2 >= j.max_attempts then 2
        else least(j.crashes + 1, 2)
      end,
      locked_until = null,
      finished_at = case
        when j.is_cancelled or j.is_begun and j.failures + 1 >= j.max_attempts
        then clock_timestamp()
      end,
      kept_until = case
        when j.is_cancelled then clock_timestamp() + coalesce(j.keep_for, interval '0')
      end,
      last_error = case
        when j.is_begun then reason
        else j.last_error
      end
    from (
      select d.id, d.locked_until from {schema}.jobs as d
      where d.status = 'running' and d.locked_until <= clock_timestamp()
      order by d.channel, d.taken
      limit recover_expired.max_count
      for update skip locked
    ) as expired
    where j.id = expired.id
    returning
      j.id, j.channel, j.attempt, j.failures, j.status, j.is_begun, j.is_begin_awaited,
      j.has_followers, j.finished_at, expired.locked_until as lock_end
  loop
    number := number + 1;
    if taken_back.has_followers and taken_back.finished_at is not null then
      followed := followed || taken_back.id;
    end if;
    if taken_back.is_begin_awaited then
      awaiting := awaiting || taken_back.channel::text;
      lock_ends := lock_ends || taken_back.lock_end;
    end if;
    if taken_back.status <> 'cancelled' then
      raise notice 'job=% channel=% attempt=% failures=% %: %',
        taken_back.id, taken_back.channel, taken_back.attempt, taken_back.failures,
        case
          when taken_back.status = 'dead' then 'dead'
          when taken_back.is_begun then 'failed'
          else 'not begun, waits again'
        end,
        reason
        using errcode = 'MP090', detail = taken_back.status::text;
    end if;
  end loop;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  -- In the order of names, so that two sessions never deadlock.
  for taken_back in
    select a.channel, max(a.lock_end) as lock_end
    from unnest(awaiting, lock_ends) as a (channel, lock_end)
    group by a.channel
    order by a.channel collate "C"
  loop
    update {schema}.channels as c
    set next_release_at = greatest(
      c.next_release_at, taken_back.lock_end + p.release_interval
    )
    from {schema}.channel_policies() as p
    where c.name = taken_back.channel collate "C" and p.name = c.name collate "C"
      and p.release_interval is not null;
  end loop;
  return number;
end;
$$;
