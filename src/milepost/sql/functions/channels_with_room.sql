-- The channels that have ready jobs and may release one, in the order of their names after `after`
-- and then from the beginning, at most `max_count`: the rotation. Only channels that start with
-- `prefix`, and never reserved ones: a pattern matches what users put, not what is internal.
--
-- One index descent per channel, and one for its policy. It stops when enough are found, because
-- nothing here has to be read to its end. The complete order by keeps the planner on jobs_ready
-- even if the table was not analysed; the settings prevent it from reading all policies. The result
-- is a proposal: take_from() checks again under lock, from the first job of each channel on, so
-- that dead index entries before it are skipped only once.
create or replace function {schema}.channels_with_room(
  prefix text, after text, max_count integer
) returns table (channel text, head_priority smallint, head_run_at timestamptz, head_id bigint)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
-- Otherwise the statement would be planned at every look, which takes four times as long as to run it.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  -- The name of a channel is not empty: without a prefix, every name matches.
  prefix constant text collate "C" := channels_with_room.prefix;
  start constant text collate "C" := coalesce(channels_with_room.after, '');
  -- None of their channels may release a job, also not one that has no row yet.
  closed_families constant text[] := array(
    select f.name
    from {schema}.channels as f
    left join lateral {schema}.running_of_families(array[f.name]) as counted
      on f.max_concurrency_total is not null
    where right(f.name, 1) = '*'
      and (f.is_paused or f.max_concurrency_total <= counted.number)
  );
begin
  return query
  with recursive visited (channel, priority, run_at, id, is_second) as (
    (
      select first.* from (
        (select j.channel, j.priority, j.run_at, j.id, false as is_second from {schema}.jobs as j
          where j.status = 'ready' and j.channel > start and j.channel >= prefix
          order by j.channel, j.priority, j.run_at, j.id limit 1)
        union all
        (select j.channel, j.priority, j.run_at, j.id, true from {schema}.jobs as j
          where j.status = 'ready' and j.channel >= prefix
          order by j.channel, j.priority, j.run_at, j.id limit 1)
      ) as first
      where starts_with(first.channel, prefix)
      limit 1
    )
    union all
    select next.*
    from visited as v
    cross join lateral (
      select found.* from (
        (select j.channel, j.priority, j.run_at, j.id, v.is_second from {schema}.jobs as j
          where j.status = 'ready' and j.channel > v.channel
          order by j.channel, j.priority, j.run_at, j.id limit 1)
        union all
        (select j.channel, j.priority, j.run_at, j.id, true from {schema}.jobs as j
          where not v.is_second and j.status = 'ready' and j.channel >= prefix
          order by j.channel, j.priority, j.run_at, j.id limit 1)
      ) as found
      where starts_with(found.channel, prefix)
      limit 1
    ) as next
    where not next.is_second or next.channel <= start
  )
  select v.channel::text, v.priority, v.run_at, v.id
  from visited as v
  left join {schema}.channel_policies() as c on c.name = v.channel collate "C"
  where not starts_with(v.channel, 'milepost.') and (
    c.name is null
      and (
        cardinality(closed_families) = 0
        or not exists (
          select from {schema}.family_of(v.channel) as f where f.family = any(closed_families)
        )
      )
    or not c.is_paused
      and (c.release_interval is null or c.next_release_at <= clock_timestamp())
      and (
        c.rate_count is null
        or {schema}.rate_allows(
          c.rate_count, c.rate_period, c.rate_burst, c.rate_at, clock_timestamp()
        ) > 0
      )
      and (c.max_concurrency_total is null or c.family <> all(closed_families))
      and (
        c.max_concurrency is null
        or c.max_concurrency > (
          select count(*) from {schema}.jobs as r
          where r.status = 'running' and r.channel = v.channel and r.taken >= c.oldest_running
        )
      )
  )
  limit channels_with_room.max_count;
end;
$$;
