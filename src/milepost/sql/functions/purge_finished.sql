-- Delete finished jobs that were kept for long enough, at most `max_count`; how many.
create or replace function {schema}.purge_finished(max_count integer default 1000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- As a constant: the index cannot be searched for a function that changes while it is.
  this_moment constant timestamptz := clock_timestamp();
  number bigint;
begin
  with purged as (
    delete from {schema}.jobs as j
    using (
      select d.id from {schema}.jobs as d
      where d.status in ('done', 'cancelled') and d.kept_until <= this_moment
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
