-- Make due scheduled jobs ready, at most `max_count`, the earliest first; returns how many. SKIP
-- LOCKED: another worker is doing the same, or a job is being cancelled.
create or replace function {schema}.promote_due(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- As a constant: the index cannot be searched for the value of a volatile function.
  this_moment constant timestamptz := clock_timestamp();
  earliest timestamptz;
  number bigint;
begin
  -- Usually nothing is due, and this check is cheaper than an update of no rows. Ordered, because
  -- otherwise the planner might use the other index of scheduled jobs.
  select d.run_at into earliest
  from {schema}.jobs as d
  where d.status = 'scheduled'
  order by d.run_at
  limit 1;
  if earliest is null or earliest > this_moment then
    return 0;
  end if;
  with promoted as (
    update {schema}.jobs as j
    set status = 'ready'
    from (
      select d.id from {schema}.jobs as d
      where d.status = 'scheduled' and d.run_at <= this_moment
      order by d.run_at
      limit promote_due.max_count
      for update skip locked
    ) as due
    where j.id = due.id
    returning 1
  )
  select count(*) from promoted into number;
  return number;
end;
$$;
