-- Lag counts the messages that pass the processor's own filter, up to a bound. The position of a
-- segmented processor is that of its last segment; what other segments have handled beyond it does
-- not count. What self-checkpointing handlers have handled is their owner's to say; without one,
-- it is what is durable.
with handled as materialized (
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
  p.name,
  p.version,
  c.transaction_id,
  c."position",
  lag.messages as lag_messages,
  lag.messages < %(count_up_to)s as is_lag_exact,
  coalesce(lag.seconds, 0)::double precision as lag_seconds,
  case
    when p.is_paused then 'paused'
    when p.segments is not null and living.number > 0 and p.state in ('stopped', 'failed')
      then 'running'
    when p.state not in ('stopped', 'failed')
      and p.reported_at < clock_timestamp() - interval '30 s' then 'silent'
    else p.state
  end as state,
  case when living.number > 1 then living.number || ' instances' else p.owner end as owner,
  case
    when p.segments is not null then living.rate
    when p.reported_at < clock_timestamp() - interval '30 s' then 0
    else p.rate
  end as rate,
  p.handled,
  p.last_error,
  p.last_error_at,
  c.updated_at,
  (
    select count(*)
    from {schema}.dead_letters as d
    where d.processor = p.name and d.version = p.version
  ) as dead_letters,
  p.mode,
  p.segments,
  (
    select count(*)
    from {schema}.parked_keys as k
    where k.processor = p.name and k.version = p.version
  ) as parked_keys,
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
  extract(epoch from clock_timestamp() - p.reported_at)::float8 as silent_seconds,
  behind.transaction_id as handled_transaction_id,
  behind."position" as handled_position,
  case when p.mode is not null then lag.unhandled end as unhandled_messages
from {schema}.processors as p
left join lateral (
  select each.transaction_id, each."position", each.updated_at
  from {schema}.checkpoints as each
  where each.processor = p.name and each.version = p.version
  order by each.transaction_id, each."position"
  limit 1
) as c on true
left join lateral (
  select each.transaction_id, each."position"
  from {schema}.checkpoints as each
  where each.processor = p.name and each.version = p.version
  order by each.transaction_id desc, each."position" desc
  limit 1
) as foremost on true
left join lateral (
  select h.transaction_id, h."position"
  from handled as h
  where p.mode is not null and h.processor = p.name and h.version = p.version
  order by h.transaction_id, h."position"
  limit 1
) as behind on true
cross join lateral (
  select count(*) as number, coalesce(sum(i.rate), 0) as rate
  from {schema}.instances as i
  where i.processor = p.name and i.version = p.version and i.alive_until > clock_timestamp()
) as living
cross join lateral (
  select
    count(*) as messages,
    count(*) filter (where not waiting.is_handled) as unhandled,
    extract(
      epoch from clock_timestamp()
        - min(waiting.recorded_at) filter (where isfinite(waiting.recorded_at))
    ) as seconds
  from (
    select m.recorded_at,
      p.mode is not null and exists (
        select from handled as h
        where h.processor = p.name
          and h.version = p.version
          and {schema}.key_hash(m.key) & h.mask = h.id
          and (m.transaction_id, m."position") <= (h.transaction_id, h."position")
      ) as is_handled
    from {schema}.messages as m
    where (m.transaction_id, m."position")
        > (coalesce(c.transaction_id, 0), coalesce(c."position", 0))
      and (p.topics is null or m.topic = any(p.topics))
      and (p.types is null or m.type = any(p.types))
      and case
        when p.segments is null then true
        when (m.transaction_id, m."position") > (foremost.transaction_id, foremost."position")
          then true
        else exists (
          select from {schema}.segments as s
          join {schema}.checkpoints as own
            on own.processor = s.processor and own.version = s.version and own.segment = s.id
          where s.processor = p.name
            and s.version = p.version
            and {schema}.key_hash(m.key) & s.mask = s.id
            and (m.transaction_id, m."position") > (own.transaction_id, own."position")
        )
      end
    order by m.transaction_id, m."position"
    limit %(count_up_to)s
  ) as waiting
) as lag
where %(name)s::text is null or p.name = %(name)s
order by p.name, p.version
