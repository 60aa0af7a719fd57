-- The checkpoint of one segment, for readers without a claim; no row if it was split or merged.
select s.id, s.mask, c.epoch, c.transaction_id, c."position"
from {schema}.segments as s
join {schema}.checkpoints as c
  on c.processor = s.processor and c.version = s.version and c.segment = s.id
where s.processor = %(processor)s
  and s.version = %(version)s
  and s.id = %(segment)s
  and s.mask = %(mask)s
