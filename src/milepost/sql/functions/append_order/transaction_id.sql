-- The id by which the current transaction's messages sort: the same for all, so that only their
-- positions determine the order.
create or replace function {schema}.transaction_id() returns bigint
language sql immutable parallel safe
return 0::bigint;
