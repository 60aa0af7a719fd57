-- The last error of each processor and version of a pipeline, and when its checkpoint has moved.
select f.name, f.version, f.last_error, f.last_error_at, c.updated_at
from (
  select p.name, p.version, p.last_error, p.last_error_at from {schema}.processors as p
  union all
  select p.name, p.version, p.last_error, p.last_error_at from {schema}.pipelines as p
) as f
left join lateral (
  select each.updated_at
  from {schema}.checkpoints as each
  where each.processor = f.name and each.version = f.version
  order by each.transaction_id, each."position"
  limit 1
) as c on true
where f.last_error is not null and f.last_error_at is not null
