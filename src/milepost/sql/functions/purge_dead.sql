-- Delete dead jobs that were dead for longer than the keep_dead_for of their channel, at most
-- `max_count`; returns how many. Those that others wait for stay: what becomes of them is for an
-- operator to decide.
create or replace function {schema}.purge_dead(max_count integer default 1000) returns bigint
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  -- As a constant: the index cannot be searched for the value of a volatile function.
  this_moment constant timestamptz := clock_timestamp();
  names text[];
  times interval[];
  number bigint;
begin
  select array_agg(c.name), array_agg(c.keep_dead_for) into names, times
  from {schema}.channel_upkeep as c where c.keep_dead_for is not null;
  if names is null then
    return 0;
  end if;
  with recursive visited (channel) as (
    (
      select j.channel from {schema}.jobs as j where j.status = 'dead'
      order by j.channel, j.finished_at limit 1
    )
    union all
    select next.channel from visited as v cross join lateral (
      select j.channel from {schema}.jobs as j where j.status = 'dead' and j.channel > v.channel
      order by j.channel, j.finished_at limit 1
    ) as next
  ),
  old as materialized (
    select j.id
    from visited as v
    cross join lateral (
      select times[array_position(names, {schema}.closest_policy(v.channel, names))] as keep_for
    ) as policy
    cross join lateral (
      select d.id from {schema}.jobs as d
      where d.status = 'dead' and d.channel = v.channel
        and d.finished_at <= this_moment - policy.keep_for
        and not exists (select from {schema}.job_dependencies as w where w.after_id = d.id)
      order by d.channel, d.finished_at
      limit purge_dead.max_count
      for update skip locked
    ) as j
    limit purge_dead.max_count
  ),
  purged as (
    delete from {schema}.jobs as j using old where j.id = old.id returning 1
  )
  select count(*) from purged into number;
  return number;
end;
$$;
