-- What operators want of some processors, in the order in which they are named. A plain select: it
-- must cost idle processors nothing. The checkpoint is that of a processor without segments: a reset
-- must be noticed where nothing is stored.
select
  coalesce(p.is_paused, false),
  exists (
    select from {schema}.dead_letters as d
    where d.processor = a.name
      and d.version = a.version
      and d.retry_requested_at is not null
  )
  or exists (
    select from {schema}.parked_keys as k
    where k.processor = a.name
      and k.version = a.version
      and k.retry_requested_at is not null
  ),
  c.transaction_id,
  c."position"
from unnest(%(processors)s::text[], %(versions)s::integer[])
  with ordinality as a (name, version, place)
left join {schema}.processors as p on p.name = a.name and p.version = a.version
left join {schema}.checkpoints as c
  on c.processor = a.name and c.version = a.version and c.segment = 0
order by a.place
