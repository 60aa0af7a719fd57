-- Before each batch: the checkpoint, and the requests of the operators. A plain select.
select
  c.transaction_id,
  c."position",
  c.epoch,
  c.owner,
  coalesce(p.is_paused, false) or coalesce(p.hold_until > clock_timestamp(), false),
  p.spark_run,
  exists (
    select from {schema}.dead_letters as d
    where d.processor = %(pipeline)s
      and d.version = %(version)s
      and d.retry_requested_at is not null
  )
from (values (true)) as always
left join {schema}.pipelines as p on p.name = %(pipeline)s and p.version = %(version)s
left join {schema}.checkpoints as c
  on c.processor = %(pipeline)s and c.version = %(version)s and c.segment = 0
