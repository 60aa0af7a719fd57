-- Whether something is in flight above a horizon, so that it is worth looking again soon. Here:
-- whether a committed message waits for an older transaction to end.
-- The newest is fetched and then compared: asked for any row above the horizon, the planner, who
-- does not know that there is hardly ever one, scans the table for it.
create or replace function {schema}.is_held(horizon {schema}.position) returns boolean
language sql volatile
return coalesce(
  (
    select (transaction_id, "position") > ((horizon).transaction_id, (horizon).position)
    from {schema}.messages
    order by transaction_id desc, "position" desc
    limit 1
  ),
  false
);
