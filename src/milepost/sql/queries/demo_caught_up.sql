select p.name
from {schema}.pipelines as p
join {schema}.checkpoints as c
  on c.processor = p.name and c.version = p.version and c.segment = 0
where p.is_active
  and not exists (
    select from {schema}.messages as m
    where (m.transaction_id, m."position") > (c.transaction_id, c."position")
  )
