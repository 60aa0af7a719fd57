-- Move the checkpoints of several segments past messages that were filtered out, in one transaction.
-- One that somebody else holds is left as it is: SKIP LOCKED, because there will be a next time.
with held as materialized (
  select c.segment
  from {schema}.checkpoints as c
  where c.processor = %(processor)s and c.version = %(version)s
    and c.segment = any (%(segments)s::integer[])
  for update skip locked
)
select w.segment, {schema}.store_checkpoint(
  %(processor)s, %(version)s, w.segment,
  row(w.expected_transaction_id, w.expected_position)::{schema}.position,
  row(w.new_transaction_id, w.new_position)::{schema}.position,
  w.epoch, %(owner)s
)
from unnest(
  %(segments)s::integer[], %(expected_transaction_ids)s::bigint[], %(expected_positions)s::bigint[],
  %(new_transaction_ids)s::bigint[], %(new_positions)s::bigint[], %(epochs)s::bigint[]
) as w (
  segment, expected_transaction_id, expected_position, new_transaction_id, new_position, epoch
)
join held on held.segment = w.segment
