-- Whether something is in flight above a horizon, so that a reader should poll again soon. Here:
-- whether a transaction holds a floor, and has drawn or is about to (a COPY that waits for its
-- first row), or a message has become visible since. A reader that slept then would miss it,
-- because only one of the transactions in flight notifies (see before_append).
--
-- The locks first: a transaction that has released its lock by then is visible to the snapshot of
-- the next statement. The newest row is fetched and then compared: for a condition `above the
-- horizon` the planner, which does not know that there is hardly ever such a row, scans the table.
create or replace function {schema}.is_held(horizon {schema}.position) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from {schema}.floors_held()) then
    return true;
  end if;
  return coalesce(
    (
      select (transaction_id, "position") > ((horizon).transaction_id, (horizon).position)
      from {schema}.messages
      order by transaction_id desc, "position" desc
      limit 1
    ),
    false
  );
end;
$$;
