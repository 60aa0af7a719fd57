-- All versions of a pipeline, with the epochs of their checkpoints: in one snapshot, so that a
-- driver that sees a version as active has an epoch from before any later swap, and is fenced by
-- it.
select
  p.version, p.code_version, p.is_active, p.built_at is not null, coalesce(c.epoch, 0),
  c.transaction_id, c."position"
from {schema}.pipelines as p
left join {schema}.checkpoints as c
  on c.processor = p.name and c.version = p.version and c.segment = 0
where p.name = %(pipeline)s
order by p.version
