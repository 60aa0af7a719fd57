-- The last position of what the table does not have any more: the end of the archive, or of what was
-- removed. Positions up to it were given, even if the table is empty. Stable, so that it uses the
-- snapshot of the statement that compares it with the sequence.
create or replace function {schema}.history_end() returns {schema}.position
language sql stable
return greatest(
  (
    select row(last_transaction_id, last_position)::{schema}.position
    from {schema}.archive
    order by last_transaction_id desc, last_position desc
    limit 1
  ),
  (select row(removed_transaction_id, removed_position)::{schema}.position from {schema}.log)
);
