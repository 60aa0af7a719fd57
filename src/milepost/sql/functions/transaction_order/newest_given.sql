-- No position above this one was ever given, not even to a transaction that was rolled back. The
-- snapshot sees no transaction from its own xmax on, except this one.
create or replace function {schema}.newest_given() returns {schema}.position
language sql volatile
return row(
  {schema}.transaction_base() + greatest(
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1,
    pg_current_xact_id_if_assigned()::text::bigint
  ),
  9223372036854775807
)::{schema}.position;
