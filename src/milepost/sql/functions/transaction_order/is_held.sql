-- Whether something is in flight above a horizon, so that a reader should poll again soon. Here:
-- whether a committed message waits for an older transaction to end. The newest row is fetched and
-- then compared: for a condition `above the horizon` the planner, which does not know that there is
-- hardly ever such a row, scans the table.
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
