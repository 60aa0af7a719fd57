-- Delete dead jobs that were dead for longer than the keep_dead_for of their channel, at most
-- `max_count`; returns how many. Those that others wait for stay: what becomes of them is for an
-- operator to decide. Goes down to each channel with dead jobs that a policy names, and to no other.
create or replace function {schema}.purge_dead(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
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
  with recursive policies as (
    select p.name, p.keep_for, right(p.name, 1) = '*' as is_prefix,
      case when right(p.name, 1) = '*' then left(p.name, -1) else p.name end collate "C" as start
    from unnest(names, times) as p (name, keep_for)
  ),
  visited (name, keep_for, is_prefix, start, channel) as (
    select p.name, p.keep_for, p.is_prefix, p.start, first.channel
    from policies as p
    cross join lateral (
      select j.channel from {schema}.jobs as j where j.status = 'dead' and j.channel >= p.start
      order by j.channel, j.finished_at limit 1
    ) as first
    where first.channel = p.start or p.is_prefix and starts_with(first.channel, p.start)
    union all
    select v.name, v.keep_for, v.is_prefix, v.start, next.channel
    from visited as v
    cross join lateral (
      select j.channel from {schema}.jobs as j where j.status = 'dead' and j.channel > v.channel
      order by j.channel, j.finished_at limit 1
    ) as next
    where v.is_prefix and starts_with(next.channel, v.start)
  ),
  old as materialized (
    select j.id
    from visited as v
    cross join lateral (
      select d.id from {schema}.jobs as d
      where d.status = 'dead' and d.channel = v.channel
        and d.finished_at <= this_moment - v.keep_for
        and not exists (select from {schema}.job_dependencies as w where w.after_id = d.id)
      order by d.channel, d.finished_at
      limit purge_dead.max_count
      for update skip locked
    ) as j
    where v.name = {schema}.closest_policy(v.channel, names)
    limit purge_dead.max_count
  ),
  purged as (
    delete from {schema}.jobs as j using old where j.id = old.id returning 1
  )
  select count(*) from purged into number;
  return number;
end;
$$;
