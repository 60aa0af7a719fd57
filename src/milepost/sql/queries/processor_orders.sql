-- What the operators ask of a processor. A plain select: it must cost an idle processor nothing.
-- The checkpoint comes along, because a reset must be noticed where nothing is stored.
select
  coalesce(p.is_paused, false),
  exists (
    select from {schema}.dead_letters as d
    where d.processor = %(processor)s
      and d.version = %(version)s
      and d.retry_requested_at is not null
  )
  or exists (
    select from {schema}.parked_keys as k
    where k.processor = %(processor)s
      and k.version = %(version)s
      and k.retry_requested_at is not null
  ),
  c.transaction_id,
  c."position"
from (values (true)) as always
left join {schema}.processors as p on p.name = %(processor)s and p.version = %(version)s
left join {schema}.checkpoints as c
  on c.processor = %(processor)s and c.version = %(version)s and c.segment = 0
