-- The channels that have jobs ready and may release one, in the order of their names after `after`
-- and then from the beginning, at most `max_count`: the rotation. Of those that begin with `prefix`.
--
-- One index descent a channel, and one for its policy; no further than is asked for, because nothing
-- here has to be read to its end. The full order by keeps the planner on jobs_ready whatever it
-- believes of an unanalysed table; the settings keep it from reading all policies. What is found is
-- a proposal: take_from() looks again under lock, from each channel's first job on, so that dead
-- entries before it are walked over once.
create or replace function {schema}.channels_with_room(
  prefix text, after text, max_count integer
) returns table (channel text, head_priority smallint, head_run_at timestamptz, head_id bigint)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  -- A channel's name is not empty: without a prefix it begins with whatever there is.
  prefix constant text collate "C" := channels_with_room.prefix;
  start constant text collate "C" := coalesce(channels_with_room.after, '');
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
  left join {schema}.channels as c on c.name = v.channel
  where c.name is null
    or not c.is_paused
      and (c.release_interval is null or c.next_release_at <= clock_timestamp())
      and (
        c.max_concurrency is null
        or c.max_concurrency > (
          select count(*) from {schema}.jobs as r
          where r.status = 'running' and r.channel = v.channel and r.taken >= c.oldest_running
        )
      )
  limit channels_with_room.max_count;
end;
$$;
