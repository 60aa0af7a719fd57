-- The answer, and the transaction in which it is valid. The transaction id is read after the store,
-- which assigns one if it changes anything.
select stored.answer, pg_current_xact_id_if_assigned()::text
from (
  select {schema}.store_checkpoint(
    %(processor)s, %(version)s, %(segment)s,
    row(%(expected_transaction_id)s, %(expected_position)s)::{schema}.position,
    row(%(new_transaction_id)s, %(new_position)s)::{schema}.position,
    %(epoch)s, %(owner)s
  ) as answer
  offset 0
) as stored
