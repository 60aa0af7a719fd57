-- The records of a reset that are ahead of a checkpoint and concern keys of its segment.
select id, mask, transaction_id, "position"
from {schema}.replays
where processor = %(processor)s
  and version = %(version)s
  and (transaction_id, "position") > (%(transaction_id)s, %(position)s)
  and id & mask & %(mask)s::integer = %(id)s::integer & mask & %(mask)s::integer
