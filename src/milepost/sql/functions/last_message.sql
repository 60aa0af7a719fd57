-- The last message not above a position: where a reader may say that it has come to.
--
-- What a rolled back transaction drew, from the sequence or as its id, is not durable: after a crash
-- of the server it is drawn once more, for a message that whoever had passed it would never see. A
-- message that is visible is durable, and so is every draw before it (before_append lets no
-- transaction that appends commit without waiting for the disk). Where the last ones were removed,
-- it is the last of those.
-- Volatile, to take a snapshot later than the caller's.
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
