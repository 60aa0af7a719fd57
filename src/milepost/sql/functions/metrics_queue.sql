-- The queue, for metrics(): jobs by status, in all and of `max_channels` channels; the others are one
-- sum, without a name. First come the channels that have dead jobs, then those with a job that is due for
-- a minute, then those at a limit, then the rest; among these the deepest. Finished jobs are counted
-- only in all.
--
-- Every channel is found by index descents, up to 10,000 (with priorities). The age of its oldest due
-- job is exact. So are its dead and running jobs, up to 100,000 of each in all channels, and its overdue
-- jobs (scheduled and due), up to 10,000. Of the other statuses, up to `max_counted` jobs (null: 2,000) are counted in the order of
-- channels. What was not counted is estimated from a sample of about 60 pages of the table, other
-- ones at every call: it decides only about the order. Then the estimated numbers of the first 200
-- listed are counted, up to 250,000 jobs together; who has few leaves more to the others.
--
-- `estimated` names the numbers that are not exact. An estimate is at least what was counted, and
-- at least one for a channel that was found: no channel looks idle because a sample has missed it.
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
  bound constant integer := coalesce(metrics_queue.max_counted, 2000);
  wide_bound constant integer := greatest(bound, 100000);
  recounted_bound constant integer := greatest(bound, 250000);
  overdue_bound constant integer := greatest(bound, 10000);
  found_bound constant integer := 10000;
  this_moment constant timestamptz := clock_timestamp();
  pages constant float8 := greatest(pg_relation_size('{schema}.jobs') / 8192.0, 1);
  percent constant float8 := least(100, 60 * 100 / pages);
  document json;
begin
  with recursive
  counted as materialized (
    select 'ready' as status, first.channel, count(*) as number from (
      select j.channel from {schema}.jobs as j where j.status = 'ready'
      order by j.channel, j.priority, j.run_at, j.id limit bound
    ) as first group by first.channel
    union all
    select 'scheduled', first.channel, count(*) from (
      select j.channel from {schema}.jobs as j where j.status = 'scheduled'
      order by j.channel, j.run_at limit bound
    ) as first group by first.channel
    union all
    select 'waiting', first.channel, count(*) from (
      select j.channel from {schema}.jobs as j where j.status = 'waiting'
      order by j.channel limit bound
    ) as first group by first.channel
    union all
    select 'running', first.channel, count(*) from (
      select j.channel from {schema}.jobs as j where j.status = 'running'
      order by j.channel, j.taken limit wide_bound
    ) as first group by first.channel
    union all
    select 'dead', first.channel, count(*) from (
      select j.channel from {schema}.jobs as j where j.status = 'dead'
      order by j.channel, j.id limit wide_bound
    ) as first group by first.channel
    union all
    select 'kept', '', count(*) from (
      select 1 from {schema}.jobs as j where j.status in ('done', 'cancelled')
      order by j.kept_until limit bound
    ) as first
  ),
  -- Those with jobs that were not counted. All channels before the last one were counted to their end.
  cut as materialized (
    select c.status, max(c.channel) as last_channel
    from counted as c
    group by c.status
    having sum(c.number)
      >= case when c.status in ('running', 'dead') then wide_bound else bound end
  ),
  -- The first ready job of each priority of each channel.
  heads (channel, priority, run_at, turn) as (
    (
      select j.channel, j.priority, j.run_at, 1 from {schema}.jobs as j where j.status = 'ready'
      order by j.channel, j.priority, j.run_at, j.id limit 1
    )
    union all
    select next.channel, next.priority, next.run_at, h.turn + 1
    from heads as h
    cross join lateral (
      select j.channel, j.priority, j.run_at from {schema}.jobs as j
      where j.status = 'ready' and (j.channel, j.priority) > (h.channel, h.priority)
      order by j.channel, j.priority, j.run_at, j.id limit 1
    ) as next
    where h.turn < found_bound
  ),
  -- The first scheduled job of each channel, and how many are due there.
  late (channel, run_at, number, room, turn) as (
    select ''::text collate "C", null::timestamptz, 0::bigint, overdue_bound::bigint, 0
    union all
    select
      next.channel, next.run_at, due.number, greatest(l.room - l.number, 1), l.turn + 1
    from late as l
    cross join lateral (
      select j.channel, j.run_at from {schema}.jobs as j
      where j.status = 'scheduled' and j.channel > l.channel
      order by j.channel, j.run_at limit 1
    ) as next
    cross join lateral (
      select case when next.run_at <= this_moment then (
        select count(*) from (
          select 1 from {schema}.jobs as j
          where j.status = 'scheduled' and j.channel = next.channel and j.run_at <= this_moment
          order by j.channel, j.run_at limit greatest(l.room - l.number, 1)
        ) as first
      ) else 0 end as number
    ) as due
    where l.turn < found_bound
  ),
  -- Of the other statuses, the channels behind the last one counted.
  further (status, channel, turn) as (
    select c.status, c.last_channel, 0 from cut as c
    where c.status in ('waiting', 'running', 'dead')
    union all
    select f.status, next.channel, f.turn + 1
    from further as f
    cross join lateral (
      (select j.channel from {schema}.jobs as j
        where f.status = 'waiting' and j.status = 'waiting' and j.channel > f.channel
        order by j.channel limit 1)
      union all
      (select j.channel from {schema}.jobs as j
        where f.status = 'running' and j.status = 'running' and j.channel > f.channel
        order by j.channel, j.taken limit 1)
      union all
      (select j.channel from {schema}.jobs as j
        where f.status = 'dead' and j.status = 'dead' and j.channel > f.channel
        order by j.channel, j.id limit 1)
    ) as next
    where f.turn < found_bound
  ),
  oldest as materialized (
    select first.channel, min({schema}.in_range(first.run_at)) as run_at
    from (
      select h.channel, h.run_at from heads as h
      union all
      select l.channel, l.run_at from late as l where l.run_at <= this_moment
    ) as first
    group by first.channel
  ),
  -- By status and channel as they are: a text made of each row's status would cost more than the sample.
  sampled as materialized (
    select j.status, j.channel, count(*) as number
    from {schema}.jobs as j tablesample system (percent)
    where exists (select from cut)
    group by j.status, j.channel
  ),
  sample as materialized (
    select
      case when s.status in ('done', 'cancelled') then 'kept' else s.status::text end as status,
      case when s.status in ('done', 'cancelled') then '' else s.channel end as channel,
      sum(s.number) as hits,
      round(sum(s.number) * 100 / percent)::bigint as number
    from sampled as s
    group by 1, 2
  ),
  known as materialized (
    select n.status, n.channel, max(n.number) as number
    from (
      select c.status, c.channel, c.number from counted as c
      union all
      select 'ready', h.channel, 1 from heads as h
      union all
      select 'scheduled', l.channel, greatest(l.number, 1) from late as l where l.turn > 0
      union all
      select f.status, f.channel, 1 from further as f
    ) as n
    group by n.status, n.channel
  ),
  numbers as materialized (
    select
      k.status, k.channel, k.number as least_number,
      c.status is null as is_exact,
      case when c.status is null then k.number else greatest(k.number, s.number) end as number,
      -- By powers of two, and only if the sample has seen enough: rows that jump cannot be read.
      case
        when c.status is null then k.number
        when s.hits >= 16 then 2 ^ floor(log(2, s.number)) else 0
      end as weight
    from known as k
    left join cut as c on c.status = k.status and k.channel >= c.last_channel
    left join sample as s on c.status is not null and s.status = k.status and s.channel = k.channel
  ),
  speeds as materialized (
    select r.channel, sum(r.done_per_second) as rate
    from {schema}.channel_rates as r
    where r.reported_at > clock_timestamp() - interval '15 seconds'
    group by r.channel
  ),
  channels as materialized (
    select
      n.*,
      coalesce(l.number, 0) as overdue,
      l.number >= l.room as is_overdue_cut,
      o.run_at,
      coalesce(s.rate, 0) as rate,
      case
        when n.dead > 0 then 0
        when o.run_at < this_moment - interval '1 minute' then 1
        when n.running >= coalesce(own.max_concurrency, family.max_concurrency) then 2
        when n.unfinished >= coalesce(own.max_size, family.max_size) then 2
        else 3
      end as rank
    from (
      select
        n.channel,
        coalesce(sum(n.number) filter (where n.status = 'ready'), 0)::bigint as ready,
        coalesce(sum(n.number) filter (where n.status = 'scheduled'), 0)::bigint as scheduled,
        coalesce(sum(n.number) filter (where n.status = 'waiting'), 0)::bigint as waiting,
        coalesce(sum(n.number) filter (where n.status = 'running'), 0)::bigint as running,
        coalesce(sum(n.number) filter (where n.status = 'dead'), 0)::bigint as dead,
        sum(n.number) filter (where n.status <> 'dead') as unfinished,
        sum(n.weight) as weight,
        array_agg(n.status order by n.status) filter (where not n.is_exact) as estimated
      from numbers as n
      where n.status <> 'kept'
      group by n.channel
    ) as n
    left join oldest as o on o.channel = n.channel
    left join late as l on l.channel = n.channel
    left join speeds as s on s.channel = n.channel
    left join {schema}.channels as own on own.name = n.channel
    left join {schema}.channels as family on family.name = own.family
  ),
  placed as materialized (
    select c.*, row_number() over (order by c.rank, c.weight desc, c.channel) as place
    from channels as c
  ),
  cells as materialized (
    select
      n.status, n.channel,
      row_number() over (order by n.number, n.status, n.channel) as turn,
      count(*) over () as number
    from placed as p
    join numbers as n on n.channel = p.channel and not n.is_exact
    where p.place <= least(metrics_queue.max_channels, 200)
  ),
  recounted (turn, status, channel, number, share, room) as (
    select 0::bigint, ''::text, ''::text collate "C", 0::bigint, 1::bigint, recounted_bound::bigint
    union all
    select c.turn, c.status, c.channel, again.number, allowed.share, r.room - again.number
    from recounted as r
    join cells as c on c.turn = r.turn + 1
    cross join lateral (select r.room / (c.number - r.turn) as share) as allowed
    cross join lateral (
      select case c.status
        when 'ready' then (
          select count(*) from (
            select 1 from {schema}.jobs as j where j.status = 'ready' and j.channel = c.channel
            limit allowed.share
          ) as first
        )
        when 'scheduled' then (
          select count(*) from (
            select 1 from {schema}.jobs as j where j.status = 'scheduled' and j.channel = c.channel
            limit allowed.share
          ) as first
        )
        when 'waiting' then (
          select count(*) from (
            select 1 from {schema}.jobs as j where j.status = 'waiting' and j.channel = c.channel
            limit allowed.share
          ) as first
        )
        when 'running' then (
          select count(*) from (
            select 1 from {schema}.jobs as j where j.status = 'running' and j.channel = c.channel
            limit allowed.share
          ) as first
        )
        when 'dead' then (
          select count(*) from (
            select 1 from {schema}.jobs as j where j.status = 'dead' and j.channel = c.channel
            limit allowed.share
          ) as first
        )
      end as number
      offset 0  -- else the planner would count twice: the number is used twice
    ) as again
  ),
  exact as materialized (
    select
      r.channel,
      max(r.number) filter (where r.status = 'ready') as ready,
      max(r.number) filter (where r.status = 'scheduled') as scheduled,
      max(r.number) filter (where r.status = 'waiting') as waiting,
      max(r.number) filter (where r.status = 'running') as running,
      max(r.number) filter (where r.status = 'dead') as dead,
      array_agg(r.status) as statuses
    from recounted as r
    where r.turn > 0 and r.number < r.share
    group by r.channel
  ),
  listed as materialized (
    select
      p.channel, p.place, p.rank, p.overdue, p.run_at, p.rate,
      coalesce(e.ready, p.ready) as ready,
      coalesce(e.scheduled, p.scheduled) as scheduled,
      coalesce(e.waiting, p.waiting) as waiting,
      coalesce(e.running, p.running) as running,
      coalesce(e.dead, p.dead) as dead,
      array(
        select unnest(p.estimated) except select unnest(e.statuses)
        union all select 'overdue' where p.is_overdue_cut
      ) as estimated,
      coalesce(own.is_paused or policy.is_paused, false) as is_paused,
      case when policy.name <> p.channel then policy.name::text end as family,
      policy.max_concurrency,
      policy.max_concurrency_total,
      policy.max_size,
      extract(epoch from policy.release_interval)::float8 as release_seconds,
      policy.rate_count,
      extract(epoch from policy.rate_period)::float8 as rate_seconds,
      policy.rate_burst
    from placed as p
    left join exact as e on e.channel = p.channel
    left join {schema}.channels as own on own.name = p.channel
    left join lateral {schema}.family_of(p.channel) as f on not coalesce(own.is_policy, false)
    left join {schema}.channels as policy
      on policy.name = case when own.is_policy then own.name else f.family collate "C" end
    where p.place <= metrics_queue.max_channels
  ),
  found as materialized (
    select
      exists (select from heads as h where h.turn >= found_bound)
      or exists (select from late as l where l.turn >= found_bound)
      or exists (select from further as f where f.turn >= found_bound) as is_cut
  ),
  shown as materialized (
    select
      cell.status, sum(cell.number) as number,
      bool_or(cell.status = any(l.estimated)) as is_estimated
    from listed as l
    cross join lateral (
      values ('ready', l.ready), ('scheduled', l.scheduled), ('waiting', l.waiting),
        ('running', l.running), ('dead', l.dead)
    ) as cell (status, number)
    group by cell.status
  ),
  rest as materialized (
    select
      n.status,
      sum(n.number) as number,
      sum(n.least_number) as least_number,
      bool_or(not n.is_exact) as is_estimated
    from numbers as n
    left join placed as p on p.channel = n.channel and n.status <> 'kept'
    where p.place is null or p.place > metrics_queue.max_channels
    group by n.status
  ),
  -- The estimate of a sum is that of the sample, and not the sum of estimates: each of these is at least one.
  totals as materialized (
    select
      t.status, t.number, t.is_estimated, t.is_rest_estimated,
      case
        when t.is_rest_estimated then greatest(t.number - t.shown, t.least_rest) else t.rest
      end as rest
    from (
      select
        e.*,
        case
          when e.is_estimated then greatest(e.sampled, e.shown_exactly + e.least_rest)
          else e.shown + e.rest
        end as number
      from (
        select
          named.status,
          coalesce(n.number, 0) as sampled,
          coalesce(s.number, 0) as shown,
          case when s.is_estimated then 0 else coalesce(s.number, 0) end as shown_exactly,
          coalesce(r.number, 0) as rest,
          coalesce(r.least_number, 0) as least_rest,
          c.status is not null and (coalesce(r.is_estimated, false) or f.is_cut) as is_rest_estimated,
          c.status is not null
            and (coalesce(r.is_estimated, false) or coalesce(s.is_estimated, false) or f.is_cut)
            as is_estimated
        from unnest(array['ready', 'scheduled', 'waiting', 'running', 'dead', 'kept'])
          as named (status)
        cross join found as f
        left join cut as c on c.status = named.status
        left join shown as s on s.status = named.status
        left join rest as r on r.status = named.status
        left join (
          select e.status, sum(e.number) as number from sample as e group by e.status
        ) as n on n.status = named.status
      ) as e
    ) as t
  ),
  summed as materialized (
    select
      sum(t.number) filter (where t.status = 'ready') as ready,
      sum(t.number) filter (where t.status = 'scheduled') as scheduled,
      sum(t.number) filter (where t.status = 'waiting') as waiting,
      sum(t.number) filter (where t.status = 'running') as running,
      sum(t.number) filter (where t.status = 'dead') as dead,
      sum(t.number) filter (where t.status = 'kept') as kept,
      array_agg(t.status) filter (where t.is_estimated) as estimated,
      sum(t.rest) filter (where t.status = 'ready') as other_ready,
      sum(t.rest) filter (where t.status = 'scheduled') as other_scheduled,
      sum(t.rest) filter (where t.status = 'waiting') as other_waiting,
      sum(t.rest) filter (where t.status = 'running') as other_running,
      sum(t.rest) filter (where t.status = 'dead') as other_dead,
      array_agg(t.status) filter (where t.is_rest_estimated and t.status <> 'kept')
        as other_estimated
    from totals as t
  ),
  overall as materialized (
    select
      count(*) as channels,
      coalesce(sum(p.overdue), 0) as overdue,
      bool_or(p.is_overdue_cut) as is_overdue_cut,
      min(p.run_at) as run_at
    from placed as p
  ),
  others as materialized (
    select
      count(*) as channels,
      coalesce(sum(p.overdue), 0) as overdue,
      bool_or(p.is_overdue_cut) as is_overdue_cut,
      min(p.run_at) as run_at,
      coalesce(sum(p.rate), 0) as rate
    from placed as p
    where p.place > metrics_queue.max_channels
  )
  select json_build_object(
    'ready', s.ready,
    'scheduled', s.scheduled,
    'waiting', s.waiting,
    'running', s.running,
    'dead', s.dead,
    'kept', s.kept,
    'overdue', w.overdue,
    'estimated', coalesce(s.estimated, '{}')
      || case when w.is_overdue_cut then array['overdue'] else '{}' end
      || case when f.is_cut then array['channels'] else '{}' end,
    'is_exact', s.estimated is null,
    'channel_count', w.channels,
    'oldest_due_seconds', {schema}.age_seconds(w.run_at),
    'rate', (select coalesce(sum(r.rate), 0) from speeds as r),
    'channels', (
      select coalesce(json_agg(
        json_build_object(
          'name', l.channel,
          'rank', l.rank,
          'ready', l.ready,
          'scheduled', l.scheduled,
          'waiting', l.waiting,
          'running', l.running,
          'dead', l.dead,
          'overdue', l.overdue,
          'estimated', l.estimated,
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
        order by l.place
      ), '[]')
      from listed as l
    ),
    'other', json_build_object(
      'channels', o.channels,
      'ready', s.other_ready,
      'scheduled', s.other_scheduled,
      'waiting', s.other_waiting,
      'running', s.other_running,
      'dead', s.other_dead,
      'overdue', o.overdue,
      'estimated', coalesce(s.other_estimated, '{}')
        || case when o.is_overdue_cut then array['overdue'] else '{}' end,
      'oldest_due_seconds', {schema}.age_seconds(o.run_at),
      'rate', o.rate
    )
  )
  into document
  from summed as s
  cross join overall as w
  cross join others as o
  cross join found as f;
  return document;
end;
$$;
