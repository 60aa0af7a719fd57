-- The store of a processor that parks: the answer, and whether any key of it is parked. That needs
-- no extra statement, and cannot be stale: a session that parks a key moves the checkpoint, which
-- is locked now.
select
  stored.answer,
  case when stored.answer = 1 then {schema}.has_parked(%(processor)s, %(version)s) else false end,
  pg_current_xact_id_if_assigned()::text
from (
  select {schema}.store_checkpoint(
    %(processor)s, %(version)s, %(segment)s,
    row(%(expected_transaction_id)s, %(expected_position)s)::{schema}.position,
    row(%(new_transaction_id)s, %(new_position)s)::{schema}.position,
    %(epoch)s, %(owner)s
  ) as answer
  offset 0
) as stored
