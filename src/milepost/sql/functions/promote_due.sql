-- Make scheduled jobs ready whose time has come, at most `max_count`, the earliest first; how many.
-- SKIP LOCKED: another worker does the same at the same time, or somebody cancels a job.
create or replace function {schema}.promote_due(max_count integer default 1000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- As a constant: the index cannot be searched for a function that changes while it is.
  this_moment constant timestamptz := clock_timestamp();
  earliest timestamptz;
  number bigint;
begin
  -- Mostly nothing is due, which is seen for less than an update of no rows costs. In order, or the
  -- planner might take the other index of scheduled jobs.
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
