-- The last archived position. Where nothing is archived, the position up to which messages were
-- removed: nothing after it is archived.
create or replace function {schema}.archive_end() returns {schema}.position
language sql volatile
return coalesce(
  (
    select row(last_transaction_id, last_position)::{schema}.position
    from {schema}.archive
    order by last_transaction_id desc, last_position desc
    limit 1
  ),
  (select row(removed_transaction_id, removed_position)::{schema}.position from {schema}.log)
);
