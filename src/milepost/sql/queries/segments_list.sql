-- All segments, with their lag among the first messages after the segment that is furthest behind.
-- The hash of a key is computed once for all segments. Of what was removed from the table, each
-- has its share of the keys.
with standing as materialized (
  select
    s.id, s.mask, s.epoch, s.owner, s.claimed_until, s.wanted_by, s.wanted_until, s.last_error,
    s.last_error_at, c.transaction_id, c."position", c.updated_at
  from {schema}.segments as s
  join {schema}.checkpoints as c
    on c.processor = s.processor and c.version = s.version and c.segment = s.id
  where s.processor = %(processor)s and s.version = %(version)s
),
lowest as (
  select transaction_id, "position" from standing
  order by transaction_id, "position"
  limit 1
),
waiting as materialized (
  select m.transaction_id, m."position", m.recorded_at, {schema}.key_hash(m.key) as hash
  from {schema}.messages as m
  join {schema}.processors as p on p.name = %(processor)s and p.version = %(version)s
  where (m.transaction_id, m."position")
      > (select transaction_id, "position" from lowest)
    and (p.topics is null or m.topic = any(p.topics))
    and (p.types is null or m.type = any(p.types))
  order by m.transaction_id, m."position"
  limit %(count_up_to)s
)
select
  standing.id,
  standing.mask,
  standing.epoch,
  case when standing.claimed_until > clock_timestamp() then standing.owner end as owner,
  case when standing.wanted_until > clock_timestamp() then standing.wanted_by end as wanted_by,
  standing.transaction_id,
  standing."position",
  standing.updated_at,
  standing.last_error,
  standing.last_error_at,
  least(lag.messages + ceil(archived.messages / (standing.mask + 1.0)), %(count_up_to)s)::bigint
    as lag_messages,
  coalesce(
    greatest(lag.seconds, extract(epoch from clock_timestamp() - archived.oldest)), 0
  )::double precision as lag_seconds,
  case when standing.claimed_until > clock_timestamp() then standing.claimed_until end
    as claimed_until
from standing
join {schema}.processors as p on p.name = %(processor)s and p.version = %(version)s
cross join lateral {schema}.archived_lag(
  row(standing.transaction_id, standing."position")::{schema}.position, p.topics, p.types
) as archived
cross join lateral (
  select
    count(*) as messages,
    extract(
      epoch from clock_timestamp() - min(w.recorded_at) filter (where isfinite(w.recorded_at))
    ) as seconds
  from waiting as w
  where w.hash & standing.mask = standing.id
    and (w.transaction_id, w."position") > (standing.transaction_id, standing."position")
) as lag
order by standing.id
