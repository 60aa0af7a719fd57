-- The id by which the current transaction's messages sort. By way of text: xid8 has no cast to
-- bigint. The id of the transaction, not of a savepoint, as the column xmin would be.
create or replace function {schema}.transaction_id() returns bigint
language sql volatile parallel unsafe
return {schema}.transaction_base() + pg_current_xact_id()::text::bigint;
