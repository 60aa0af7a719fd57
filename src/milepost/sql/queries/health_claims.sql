-- Unclaimed segments of processors that have running instances. Not those of a paused processor,
-- nor those that an operator wants.
select
  s.processor,
  s.version,
  s.id as segment,
  living.number as instances,
  extract(epoch from clock_timestamp() - s.claimed_until)::float8 as expired_seconds
from {schema}.segments as s
join {schema}.processors as p on p.name = s.processor and p.version = s.version and not p.is_paused
cross join lateral (
  select count(*) as number
  from {schema}.instances as i
  where i.processor = s.processor and i.version = s.version and i.alive_until > clock_timestamp()
) as living
where living.number > 0
  and (s.owner is null or s.claimed_until < clock_timestamp())
  and (s.wanted_until is null or s.wanted_until < clock_timestamp())
order by s.processor, s.version, s.id
