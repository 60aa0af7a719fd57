-- Delete finished jobs whose time to be kept is over, at most `max_count`; returns how many. A job
-- that is gone counts as completed: one that was cancelled stays until those who wait for it know.
create or replace function {schema}.purge_finished(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- As a constant: the index cannot be searched for the value of a volatile function.
  this_moment constant timestamptz := clock_timestamp();
  number bigint;
begin
  with purged as (
    delete from {schema}.jobs as j
    using (
      select d.id from {schema}.jobs as d
      where d.status in ('done', 'cancelled') and d.kept_until <= this_moment
        and (d.status = 'done' or not exists (
          select from {schema}.job_dependencies as w where w.after_id = d.id and not w.is_linked
        ))
      order by d.kept_until
      limit purge_finished.max_count
      for update skip locked
    ) as old
    where j.id = old.id
    returning 1
  )
  select count(*) from purged into number;
  return number;
end;
$$;
