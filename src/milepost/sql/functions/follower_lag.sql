-- How far a processor or a version of a pipeline is behind the newest message, with bounded work: the
-- first `max_walked` messages after its lowest checkpoint are examined, whether they pass its filter
-- or not.
--
-- If these are all, the count is exact. Otherwise it is estimated: positions are drawn one by
-- one, so that their difference is about the number of messages; of these, each segment has its
-- share of the keys, and the share that passes the filter is that of the examined messages. A filter
-- that none of them passes is taken to let one of them through. Rolled back transactions leave
-- positions without a message: then the estimate is too high.
--
-- `seconds`: the age of the first message that is not handled. If none of the examined is one, it is
-- looked for among 20 times as many after them. If it is not there either, it is the age of the last of
-- these, which is too high. `unhandled`: of the messages,
-- those that self-checkpointing handlers were not given yet. `gap_seconds`: the age of the first message
-- that they have handled and not made durable.
--
-- `up_to`: only messages up to there count (the archiver). Without nested loops: the planner expects
-- one message, and would compare each with all segments.
create or replace function {schema}.follower_lag(
  processor text,
  version integer,
  topics text[],
  types text[],
  max_walked integer,
  up_to {schema}.position default null,
  out messages bigint,
  out is_exact boolean,
  out unhandled bigint,
  out seconds double precision,
  out gap_seconds double precision
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_nestloop = off set jit = off as $$
#variable_conflict use_column
declare
  lowest {schema}.position;
  newest {schema}.position;
  removed {schema}.position;
  archived record;
  -- Of the last of the examined, if none of them is one.
  examined_transaction_id bigint;
  examined_position bigint;
  first_recorded_at timestamptz;
  further constant integer := least(follower_lag.max_walked, 100000) * 20;
begin
  select l.removed_transaction_id, l.removed_position into removed from {schema}.log as l;
  select m.transaction_id, m."position" into newest
  from {schema}.messages as m
  where follower_lag.up_to is null
    or (m.transaction_id, m."position")
      <= ((follower_lag.up_to).transaction_id, (follower_lag.up_to).position)
  order by m.transaction_id desc, m."position" desc limit 1;
  select c.transaction_id, c."position" into lowest
  from {schema}.checkpoints as c
  where c.processor = follower_lag.processor and c.version = follower_lag.version
  order by c.transaction_id, c."position" limit 1;
  if not found then
    lowest := row(0, 0)::{schema}.position;
  end if;
  if lowest >= removed and (newest is null or lowest >= newest) then
    messages := 0;
    unhandled := 0;
    is_exact := true;
    seconds := 0;
    gap_seconds := 0;
    return;
  end if;
  select a.messages, a.is_exact, a.oldest into archived
  from {schema}.archived_lag(lowest, follower_lag.topics, follower_lag.types) as a;

  with standing as materialized (
    select
      c.segment as id, coalesce(s.mask, 0) as mask, c.transaction_id, c."position",
      -- What the owner of a claim says that was handled; without one, it is what is durable.
      case when said.counts then s.handled_transaction_id else c.transaction_id end
        as handled_transaction_id,
      case when said.counts then s.handled_position else c."position" end as handled_position,
      -- A checkpoint after the whole of a transaction has no position of a message.
      case
        when c."position" < 9223372036854775807 then c."position"
        else coalesce(
          (
            select m."position" from {schema}.messages as m
            where (m.transaction_id, m."position") <= (c.transaction_id, c."position")
            order by m.transaction_id desc, m."position" desc limit 1
          ),
          0
        )
      end as drawn,
      case when said.counts and s.handled_position < 9223372036854775807 then s.handled_position end
        as handled_drawn
    from {schema}.checkpoints as c
    left join {schema}.segments as s
      on s.processor = c.processor and s.version = c.version and s.id = c.segment
    cross join lateral (
      select coalesce(
        s.handled_epoch = s.epoch
          and s.claimed_until > clock_timestamp()
          and (s.handled_transaction_id, s.handled_position) > (c.transaction_id, c."position"),
        false
      ) as counts
    ) as said
    where c.processor = follower_lag.processor and c.version = follower_lag.version
    union all
    select 0, 0, 0, 0, 0, 0, 0, 0
    where not exists (
      select from {schema}.checkpoints as c
      where c.processor = follower_lag.processor and c.version = follower_lag.version
    )
  ),
  -- Of most processors, all segments have the same mask: so the segment of a hash is looked up, not
  -- compared with each.
  masks as materialized (select distinct st.mask from standing as st),
  walked as materialized (
    select
      m.transaction_id, m."position", m.recorded_at,
      (follower_lag.topics is null or m.topic = any(follower_lag.topics))
        and (follower_lag.types is null or m.type = any(follower_lag.types)) as passes,
      case when (select max(k.mask) from masks as k) > 0 then {schema}.key_hash(m.key) else 0 end
        as hash
    from {schema}.messages as m
    where (m.transaction_id, m."position") > ((lowest).transaction_id, (lowest).position)
      and (
        follower_lag.up_to is null
        or (m.transaction_id, m."position")
          <= ((follower_lag.up_to).transaction_id, (follower_lag.up_to).position)
      )
    order by m.transaction_id, m."position"
    limit follower_lag.max_walked
  ),
  assigned as materialized (
    select w.*, k.mask, w.hash & k.mask as segment
    from walked as w cross join masks as k
    where w.passes
  ),
  extent as (
    select
      count(*) as number,
      greatest(count(*) filter (where w.passes), 1)::float8 / greatest(count(*), 1) as share,
      (
        select row(l.transaction_id, l."position")::{schema}.position
        from walked as l order by l.transaction_id desc, l."position" desc limit 1
      ) as up_to
    from walked as w
  ),
  pending as (
    select
      count(*) as number,
      count(*) filter (
        where (w.transaction_id, w."position") > (st.handled_transaction_id, st.handled_position)
      ) as unhandled,
      min(w.recorded_at) as first_recorded_at,
      min(w.recorded_at) filter (
        where (w.transaction_id, w."position") <= (st.handled_transaction_id, st.handled_position)
      ) as gap_from
    from assigned as w
    join standing as st on st.mask = w.mask and st.id = w.segment
    where (w.transaction_id, w."position") > (st.transaction_id, st."position")
  ),
  apart as (
    select
      sum(
        greatest((newest).position - greatest(st.drawn, (removed).position), 0) / (st.mask + 1.0)
      ) as positions,
      sum(
        greatest(
          (newest).position - greatest(st.drawn, st.handled_drawn, (removed).position), 0
        ) / (st.mask + 1.0)
      ) as unhandled
    from standing as st
  )
  select
    archived.messages + case
      when e.number < follower_lag.max_walked then p.number
      else greatest(p.number, round(coalesce(apart.positions, 0) * e.share)::bigint)
    end,
    archived.is_exact and e.number < follower_lag.max_walked,
    archived.messages + case
      when e.number < follower_lag.max_walked then p.unhandled
      else greatest(p.unhandled, round(coalesce(apart.unhandled, 0) * e.share)::bigint)
    end,
    coalesce({schema}.age_seconds(archived.oldest), {schema}.age_seconds(p.first_recorded_at)),
    coalesce({schema}.age_seconds(p.gap_from), 0),
    (e.up_to).transaction_id,
    (e.up_to).position
  into
    messages, is_exact, unhandled, seconds, gap_seconds, examined_transaction_id, examined_position
  from extent as e cross join pending as p cross join apart;
  if seconds is null and not is_exact then
    select f.recorded_at into first_recorded_at
    from (
      select m.transaction_id, m."position", m.topic, m.key, m.type, m.recorded_at
      from {schema}.messages as m
      where (m.transaction_id, m."position") > (examined_transaction_id, examined_position)
        and (
          follower_lag.up_to is null
          or (m.transaction_id, m."position")
            <= ((follower_lag.up_to).transaction_id, (follower_lag.up_to).position)
        )
      order by m.transaction_id, m."position"
      limit further
    ) as f
    where (follower_lag.topics is null or f.topic = any(follower_lag.topics))
      and (follower_lag.types is null or f.type = any(follower_lag.types))
      and (
        not exists (
          select from {schema}.checkpoints as c
          where c.processor = follower_lag.processor and c.version = follower_lag.version
        )
        or exists (
          select from {schema}.checkpoints as c
          left join {schema}.segments as s
            on s.processor = c.processor and s.version = c.version and s.id = c.segment
          where c.processor = follower_lag.processor and c.version = follower_lag.version
            and {schema}.key_hash(f.key) & coalesce(s.mask, 0) = c.segment
            and (f.transaction_id, f."position") > (c.transaction_id, c."position")
        )
      )
    order by f.transaction_id, f."position"
    limit 1;
    if not found then
      select m.recorded_at into first_recorded_at
      from {schema}.messages as m
      where (m.transaction_id, m."position") > (examined_transaction_id, examined_position)
        and (
          follower_lag.up_to is null
          or (m.transaction_id, m."position")
            <= ((follower_lag.up_to).transaction_id, (follower_lag.up_to).position)
        )
      order by m.transaction_id, m."position"
      offset further - 1 limit 1;
      if not found then  -- these were all
        messages := archived.messages;
        unhandled := archived.messages;
        is_exact := archived.is_exact;
      end if;
    end if;
    seconds := {schema}.age_seconds(first_recorded_at);
  end if;
  seconds := coalesce(seconds, 0);
end;
$$;
