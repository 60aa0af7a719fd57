-- What a processor reads, and its checkpoints: one row per checkpoint, which is locked, so that it
-- does not move until the caller has moved it. Without segments there is no mask.
select p.topics, p.types, c.segment, s.mask, c.transaction_id, c."position"
from {schema}.processors as p
join {schema}.checkpoints as c on c.processor = p.name and c.version = p.version
left join {schema}.segments as s
  on s.processor = c.processor and s.version = c.version and s.id = c.segment
where p.name = %(processor)s and p.version = %(version)s
order by c.segment
for update of c
