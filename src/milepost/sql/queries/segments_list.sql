-- All segments, with their lag among the first messages after the segment that is furthest behind: so
-- many are looked at, whether they pass the filter or not, and if there are more, the lag is not exact.
-- The hash of a key is computed once for all segments, and they are counted by mask: comparing each
-- message with each segment would take too long. Of what was removed from the table, each has its
-- share of the keys.
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
walked as materialized (
  select m.transaction_id, m."position", m.recorded_at, m.key, m.topic, m.type
  from {schema}.messages as m
  where (m.transaction_id, m."position")
      > (select transaction_id, "position" from lowest)
  order by m.transaction_id, m."position"
  limit %(count_up_to)s
),
waiting as materialized (
  select m.transaction_id, m."position", m.recorded_at, {schema}.key_hash(m.key) as hash
  from walked as m
  join {schema}.processors as p on p.name = %(processor)s and p.version = %(version)s
  where (p.topics is null or m.topic = any(p.topics))
    and (p.types is null or m.type = any(p.types))
),
counted as materialized (
  select
    st.id,
    count(*) as messages,
    extract(
      epoch from clock_timestamp() - min(w.recorded_at) filter (where isfinite(w.recorded_at))
    ) as seconds
  from (select distinct mask from standing) as k
  cross join waiting as w
  join standing as st on st.mask = k.mask and st.id = w.hash & k.mask
  where (w.transaction_id, w."position") > (st.transaction_id, st."position")
  group by st.id
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
  (coalesce(lag.messages, 0) + ceil(archived.messages / (standing.mask + 1.0)))::bigint
    as lag_messages,
  coalesce(
    greatest(lag.seconds, extract(epoch from clock_timestamp() - archived.oldest)), 0
  )::double precision as lag_seconds,
  case when standing.claimed_until > clock_timestamp() then standing.claimed_until end
    as claimed_until,
  archived.is_exact and (select count(*) from walked) < %(count_up_to)s as is_lag_exact,
  kept.pid as kept_by
from standing
join {schema}.processors as p on p.name = %(processor)s and p.version = %(version)s
cross join lateral {schema}.archived_lag(
  row(standing.transaction_id, standing."position")::{schema}.position, p.topics, p.types
) as archived
left join counted as lag on lag.id = standing.id
-- Read once, and only the segments whose claims have expired for long.
left join {schema}.silent_sessions(%(processor)s, %(version)s, %(claim_seconds)s) as kept
  on kept.segment = standing.id
order by standing.id
