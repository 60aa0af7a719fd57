-- The gauges of metrics(), so that every command, the doctor, the exporters and the dashboard say the same;
-- with them what is not a gauge: owners, errors, times. The position of a segmented processor is that of its
-- last segment. What self-checkpointing handlers have handled is their owner's to say; without
-- one, it is what is durable. `unhandled_messages` is counted up to a bound.
with gauges as materialized (
  select g.*
  from json_to_recordset({schema}.metrics(array['processors']) -> 'processors') as g (
    name text, version integer, transaction_id bigint, "position" bigint, state text,
    lag_messages bigint, is_lag_exact boolean, lag_seconds float8, rate float8, handled bigint,
    dead_letters bigint, parked_keys bigint, segments integer, instances integer,
    silent_seconds float8
  )
),
handled as materialized (
  select s.processor, s.version, s.id, s.mask,
    case when said.counts then s.handled_transaction_id else c.transaction_id end as transaction_id,
    case when said.counts then s.handled_position else c."position" end as "position"
  from {schema}.segments as s
  join {schema}.checkpoints as c
    on c.processor = s.processor and c.version = s.version and c.segment = s.id
  cross join lateral (
    select s.handled_epoch = s.epoch
      and s.claimed_until > clock_timestamp()
      and (s.handled_transaction_id, s.handled_position) > (c.transaction_id, c."position")
      as counts
  ) as said
)
select
  g.name,
  g.version,
  g.transaction_id,
  g."position",
  g.lag_messages,
  g.is_lag_exact,
  g.lag_seconds,
  g.state,
  case when g.instances > 1 then g.instances || ' instances' else p.owner end as owner,
  g.rate,
  g.handled,
  p.last_error,
  p.last_error_at,
  c.updated_at,
  g.dead_letters,
  p.mode,
  g.segments,
  g.parked_keys,
  exists (
    select from {schema}.replays as r
    join {schema}.checkpoints as own on own.processor = r.processor and own.version = r.version
    left join {schema}.segments as s
      on s.processor = own.processor and s.version = own.version and s.id = own.segment
    where r.processor = p.name
      and r.version = p.version
      and (own.transaction_id, own."position") < (r.transaction_id, r."position")
      and own.segment & r.mask & coalesce(s.mask, 0) = r.id & r.mask & coalesce(s.mask, 0)
  ) as is_replaying,
  g.silent_seconds,
  behind.transaction_id as handled_transaction_id,
  behind."position" as handled_position,
  case when p.mode is not null then unread.messages + unhandled.number end as unhandled_messages
from gauges as g
join {schema}.processors as p on p.name = g.name and p.version = g.version
left join lateral (
  select each.updated_at
  from {schema}.checkpoints as each
  where each.processor = p.name and each.version = p.version
  order by each.transaction_id, each."position"
  limit 1
) as c on true
left join lateral (
  select h.transaction_id, h."position"
  from handled as h
  where p.mode is not null and h.processor = p.name and h.version = p.version
  order by h.transaction_id, h."position"
  limit 1
) as behind on true
left join lateral (
  select h.transaction_id, h."position"
  from handled as h
  where p.mode is not null and h.processor = p.name and h.version = p.version
  order by h.transaction_id desc, h."position" desc
  limit 1
) as ahead on true
cross join lateral {schema}.archived_lag(
  row(coalesce(ahead.transaction_id, 0), coalesce(ahead."position", 0))::{schema}.position,
  p.topics, p.types
) as unread
cross join lateral (
  select count(*) filter (
    where (p.topics is null or m.topic = any(p.topics))
      and (p.types is null or m.type = any(p.types))
      and not exists (
        select from handled as h
        where h.processor = p.name
          and h.version = p.version
          and {schema}.key_hash(m.key) & h.mask = h.id
          and (m.transaction_id, m."position") <= (h.transaction_id, h."position")
      )
  ) as number
  from (
    select w.transaction_id, w."position", w.topic, w.type, w.key
    from {schema}.messages as w
    where p.mode is not null
      and (w.transaction_id, w."position")
        > (coalesce(behind.transaction_id, 0), coalesce(behind."position", 0))
    order by w.transaction_id, w."position"
    limit 10000
  ) as m
) as unhandled
where %(name)s::text is null or p.name = %(name)s
order by p.name, p.version
