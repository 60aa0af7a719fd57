-- Up to where an instance has given messages to the handlers of its segments; only under the epochs
-- of its claims. In the order of their ids, like all that changes several: no deadlocks.
with held as materialized (
  select s.id, given.epoch, given.transaction_id, given."position"
  from {schema}.segments as s
  join unnest(
    %(ids)s::integer[], %(epochs)s::bigint[], %(transaction_ids)s::bigint[], %(positions)s::bigint[]
  ) as given (id, epoch, transaction_id, "position")
    on given.id = s.id and given.epoch = s.epoch
  where s.processor = %(processor)s and s.version = %(version)s and s.owner = %(owner)s
  order by s.id
  for update of s
)
update {schema}.segments as s
set handled_epoch = held.epoch,
  handled_transaction_id = held.transaction_id,
  handled_position = held."position"
from held
where s.processor = %(processor)s and s.version = %(version)s and s.id = held.id
