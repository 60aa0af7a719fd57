-- The queue, for metrics(): jobs by status, in all and of the deepest `max_channels` channels; the others
-- are one sum, without a name. Finished jobs are counted only in all.
--
-- Of each status, up to `max_counted` jobs (null: 1,000) are counted, in the order of an index: if these are all, the counts
-- are exact. Otherwise they are estimated from a sample of about 60 pages of the table, the same
-- pages at every call, so that an unchanged queue has unchanged figures. The estimate of a status is at least
-- what was counted, and of a channel with ready jobs at least one. `oldest_due_seconds` is exact:
-- one index descent for each priority of each channel finds the oldest ready job, for at most 2,000.
--
-- The settings and the complete order by keep the planner on the indexes, whatever it believes about the
-- table, which changes faster than it is analysed.
create or replace function {schema}.metrics_queue(max_channels integer, max_counted integer)
returns json
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = on set jit = off
set max_parallel_workers_per_gather = 0 set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  bound constant integer := coalesce(metrics_queue.max_counted, 1000);
  pages constant float8 := greatest(pg_relation_size('{schema}.jobs') / 8192.0, 1);
  percent constant float8 := least(100, 60 * 100 / pages);
  document json;
begin
  with
  ready as materialized (
    select j.channel from {schema}.jobs as j where j.status = 'ready'
    order by j.channel, j.priority, j.run_at, j.id limit bound
  ),
  scheduled as materialized (
    select j.channel from {schema}.jobs as j where j.status = 'scheduled'
    order by j.channel limit bound
  ),
  waiting as materialized (
    select j.channel from {schema}.jobs as j where j.status = 'waiting'
    order by j.channel limit bound
  ),
  running as materialized (
    select j.channel from {schema}.jobs as j where j.status = 'running'
    order by j.channel, j.taken limit bound
  ),
  dead as materialized (
    select j.channel from {schema}.jobs as j where j.status = 'dead'
    order by j.channel, j.id limit bound
  ),
  kept as materialized (
    select 1 from {schema}.jobs as j where j.status in ('done', 'cancelled')
    order by j.kept_until limit bound
  ),
  exact as materialized (
    select 'ready' as status, r.channel, count(*) as number from ready as r group by r.channel
    union all
    select 'scheduled', r.channel, count(*) from scheduled as r group by r.channel
    union all
    select 'waiting', r.channel, count(*) from waiting as r group by r.channel
    union all
    select 'running', r.channel, count(*) from running as r group by r.channel
    union all
    select 'dead', r.channel, count(*) from dead as r group by r.channel
    union all
    select 'kept', '', count(*) from kept
  ),
  totals as materialized (
    select e.status, sum(e.number) as number, sum(e.number) >= bound as is_more
    from exact as e group by e.status
  ),
  -- By status and channel as they are: a text made of each row's status would cost more than the sample.
  sampled as materialized (
    select j.status, j.channel, count(*) as number
    from {schema}.jobs as j tablesample system (percent) repeatable (0)
    where exists (select from totals as t where t.is_more)
    group by j.status, j.channel
  ),
  sample as materialized (
    select
      case when f.status in ('done', 'cancelled') then 'kept' else f.status::text end as status,
      case when f.status in ('done', 'cancelled') then '' else f.channel end as channel,
      round(sum(f.number) * 100 / percent)::bigint as number
    from sampled as f
    group by 1, 2
  ),
  -- Where the sample has found less than was counted, it is too small to tell.
  trusted as materialized (
    select t.status
    from totals as t join sample as s on s.status = t.status
    where t.is_more
    group by t.status, t.number
    having sum(s.number) >= t.number
  ),
  visited as materialized (
    select found.channel, min({schema}.in_range(found.run_at)) as run_at
    from (
      with recursive each (channel, priority, run_at) as (
        (
          select j.channel, j.priority, j.run_at from {schema}.jobs as j where j.status = 'ready'
          order by j.channel, j.priority, j.run_at, j.id limit 1
        )
        union all
        select next.channel, next.priority, next.run_at
        from each as e
        cross join lateral (
          select j.channel, j.priority, j.run_at from {schema}.jobs as j
          where j.status = 'ready' and (j.channel, j.priority) > (e.channel, e.priority)
          order by j.channel, j.priority, j.run_at, j.id limit 1
        ) as next
      )
      select e.channel, e.run_at from each as e limit 2000
    ) as found
    group by found.channel
  ),
  numbers as materialized (
    select e.status, e.channel, e.number from exact as e
    where e.status not in (select t.status from trusted as t)
    union all
    select s.status, s.channel, s.number from sample as s
    where s.status in (select t.status from trusted as t)
    union all
    -- Not in the sample.
    select 'ready', v.channel, 1 from visited as v
    where 'ready' in (select t.status from trusted as t)
      and not exists (
        select from sample as s where s.status = 'ready' and s.channel = v.channel
      )
  ),
  speeds as materialized (
    select r.channel, sum(r.done_per_second) as rate
    from {schema}.channel_rates as r
    where r.reported_at > clock_timestamp() - interval '15 seconds'
    group by r.channel
  ),
  channels as materialized (
    select
      known.channel,
      known.ready,
      known.scheduled,
      known.waiting,
      known.running,
      known.dead,
      v.run_at,
      coalesce(r.rate, 0) as rate,
      row_number() over (
        order by
          known.ready + known.scheduled + known.waiting + known.running + known.dead desc,
          known.channel
      ) as depth
    from (
      select
        n.channel,
        coalesce(sum(n.number) filter (where n.status = 'ready'), 0)::bigint as ready,
        coalesce(sum(n.number) filter (where n.status = 'scheduled'), 0)::bigint as scheduled,
        coalesce(sum(n.number) filter (where n.status = 'waiting'), 0)::bigint as waiting,
        coalesce(sum(n.number) filter (where n.status = 'running'), 0)::bigint as running,
        coalesce(sum(n.number) filter (where n.status = 'dead'), 0)::bigint as dead
      from numbers as n
      where n.status <> 'kept'
      group by n.channel
    ) as known
    left join visited as v on v.channel = known.channel
    left join speeds as r on r.channel = known.channel
  ),
  listed as materialized (
    select
      c.*,
      coalesce(own.is_paused or policy.is_paused, false) as is_paused,
      case when policy.name <> c.channel then policy.name::text end as family,
      policy.max_concurrency,
      policy.max_concurrency_total,
      policy.max_size,
      extract(epoch from policy.release_interval)::float8 as release_seconds,
      policy.rate_count,
      extract(epoch from policy.rate_period)::float8 as rate_seconds,
      policy.rate_burst
    from channels as c
    left join {schema}.channels as own on own.name = c.channel
    left join lateral {schema}.family_of(c.channel) as f on not coalesce(own.is_policy, false)
    left join {schema}.channels as policy
      on policy.name = case when own.is_policy then own.name else f.family collate "C" end
    where c.depth <= metrics_queue.max_channels
  )
  select json_build_object(
    'ready', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'ready'),
    'scheduled', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'scheduled'),
    'waiting', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'waiting'),
    'running', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'running'),
    'dead', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'dead'),
    'kept', (select coalesce(sum(n.number), 0) from numbers as n where n.status = 'kept'),
    'is_exact', not exists (select from totals as t where t.is_more),
    'channel_count', (select count(*) from channels),
    'oldest_due_seconds', (select {schema}.age_seconds(min(v.run_at)) from visited as v),
    'rate', (select coalesce(sum(s.rate), 0) from speeds as s),
    'channels', (
      select coalesce(json_agg(
        json_build_object(
          'name', l.channel,
          'ready', l.ready,
          'scheduled', l.scheduled,
          'waiting', l.waiting,
          'running', l.running,
          'dead', l.dead,
          'oldest_due_seconds', {schema}.age_seconds(l.run_at),
          'rate', l.rate,
          'is_paused', l.is_paused,
          'family', l.family,
          'max_concurrency', l.max_concurrency,
          'max_concurrency_total', l.max_concurrency_total,
          'max_size', l.max_size,
          'release_seconds', l.release_seconds,
          'rate_count', l.rate_count,
          'rate_seconds', l.rate_seconds,
          'rate_burst', l.rate_burst
        )
        order by l.depth
      ), '[]')
      from listed as l
    ),
    'other', (
      select json_build_object(
        'channels', count(*),
        'ready', coalesce(sum(c.ready), 0),
        'scheduled', coalesce(sum(c.scheduled), 0),
        'waiting', coalesce(sum(c.waiting), 0),
        'running', coalesce(sum(c.running), 0),
        'dead', coalesce(sum(c.dead), 0),
        'oldest_due_seconds', {schema}.age_seconds(min(c.run_at)),
        'rate', coalesce(sum(c.rate), 0)
      )
      from channels as c
      where c.depth > metrics_queue.max_channels
    )
  )
  into document;
  return document;
end;
$$;
