-- Whether something is in flight above a horizon, so that it is worth looking again soon. Here:
-- whether a committed message waits for an older transaction to end.
create or replace function {schema}.is_held(horizon {schema}.position) returns boolean
language sql volatile
return exists (
  select from {schema}.messages
  where (transaction_id, "position") > ((horizon).transaction_id, (horizon).position)
);
