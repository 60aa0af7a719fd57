select segment, id, mask, transaction_id, "position"
from {schema}.segment_floors
where processor = %(processor)s and version = %(version)s and segment = any(%(ids)s::integer[])
