-- What the operators ask of a processor. A plain select: it must cost an idle processor nothing.
select
  coalesce(bool_or(p.is_paused), false),
  exists (
    select from {schema}.dead_letters as d
    where d.processor = %(processor)s
      and d.version = %(version)s
      and d.retry_requested_at is not null
  )
from {schema}.processors as p
where p.name = %(processor)s and p.version = %(version)s
