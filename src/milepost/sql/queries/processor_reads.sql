-- Locks the checkpoint, so that it stands still until the caller has moved it.
select p.topics, p.types, c.transaction_id, c."position"
from {schema}.processors as p
join {schema}.checkpoints as c on c.processor = p.name and c.version = p.version and c.segment = 0
where p.name = %(processor)s and p.version = %(version)s
for update of c
