-- The id under which the current transaction's messages sort: all under the same, so that their
-- positions alone say the order.
create or replace function {schema}.transaction_id() returns bigint
language sql immutable parallel safe
return 0::bigint;
