-- All checkpoints of a processor, with their segments; an unsegmented processor has one, and no
-- mask.
select c.segment, s.mask, c.transaction_id, c."position"
from {schema}.checkpoints as c
left join {schema}.segments as s
  on s.processor = c.processor and s.version = c.version and s.id = c.segment
where c.processor = %(processor)s and c.version = %(version)s
order by c.transaction_id, c."position"
