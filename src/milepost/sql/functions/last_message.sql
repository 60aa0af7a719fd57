-- The last message not above a position: what a reader may report as its position.
--
-- Positions and transaction ids drawn by a rolled back transaction are not durable: after a crash
-- of the server they are drawn again, for another message, which a reader that is already past them
-- would never see. A message that is visible is durable, and so is every draw before it
-- (before_append makes every transaction that appends wait for the disk at commit). If the last
-- messages were removed, the result is the last removed one. Volatile, to use a later snapshot than
-- the caller's.
create or replace function {schema}.last_message(up_to {schema}.position)
returns {schema}.position
language sql volatile
return coalesce(
  (
    select row(transaction_id, "position")::{schema}.position
    from {schema}.messages
    where (transaction_id, "position") <= ((up_to).transaction_id, (up_to).position)
    order by transaction_id desc, "position" desc
    limit 1
  ),
  (select row(removed_transaction_id, removed_position)::{schema}.position from {schema}.log)
);
