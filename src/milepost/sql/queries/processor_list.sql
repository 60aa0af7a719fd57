-- Lag counts the messages that pass the processor's own filter, up to a bound. The position of a
-- segmented processor is that of its last segment; what other segments have handled beyond it does
-- not count. What self-checkpointing handlers have handled is their owner's to say; without one,
-- it is what is durable. What was removed from the table is counted without reading the archive: if
-- that counts too few, the lag is not exact. The archiver is behind only with what the policy wants
-- to be archived, and only since then.
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
  least(archived.messages + lag.messages, %(count_up_to)s) as lag_messages,
  archived.messages + lag.messages < %(count_up_to)s
    and archived.is_exact
    and archived.is_behind is not true as is_lag_exact,
  coalesce(greatest(lag.seconds, archived.seconds), 0)::double precision as lag_seconds,
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
  case
    when p.mode is not null then least(unread.messages + lag.unhandled, %(count_up_to)s)
  end as unhandled_messages
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
left join lateral (
  select h.transaction_id, h."position"
  from handled as h
  where p.mode is not null and h.processor = p.name and h.version = p.version
  order by h.transaction_id desc, h."position" desc
  limit 1
) as ahead on true
-- Of segments, what none of them has handled; the time is that of the one that is furthest behind,
-- and what others have handled after it is not known.
cross join lateral (
  select
    most.messages,
    most.is_exact,
    (first.messages > 0 or not first.is_exact)
      and (c.transaction_id, c."position") < (foremost.transaction_id, foremost."position")
      as is_behind,
    extract(epoch from clock_timestamp() - first.oldest) as seconds
  from {schema}.archived_lag(
    row(coalesce(foremost.transaction_id, 0), coalesce(foremost."position", 0))::{schema}.position,
    p.topics, p.types
  ) as most
  cross join {schema}.archived_lag(
    row(coalesce(c.transaction_id, 0), coalesce(c."position", 0))::{schema}.position,
    p.topics, p.types
  ) as first
) as archived
cross join lateral {schema}.archived_lag(
  row(coalesce(ahead.transaction_id, 0), coalesce(ahead."position", 0))::{schema}.position,
  p.topics, p.types
) as unread
cross join lateral (
  select count(*) as number, coalesce(sum(i.rate), 0) as rate
  from {schema}.instances as i
  where i.processor = p.name and i.version = p.version and i.alive_until > clock_timestamp()
) as living
cross join lateral (
  select
    case
      when p.name = 'milepost.archive'
        then coalesce({schema}.archive_limit(%(count_up_to)s), {schema}.archive_end())
    end as up_to,
    case when p.name = 'milepost.archive' then {schema}.archive_age() end as age
) as archivable
cross join lateral (
  select
    count(*) as messages,
    count(*) filter (where not waiting.is_handled) as unhandled,
    extract(
      epoch from clock_timestamp()
        - min(waiting.recorded_at) filter (where isfinite(waiting.recorded_at))
        - coalesce(archivable.age, interval '0')
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
      and (
        archivable.up_to is null
        or (m.transaction_id, m."position")
          <= ((archivable.up_to).transaction_id, (archivable.up_to).position)
      )
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
