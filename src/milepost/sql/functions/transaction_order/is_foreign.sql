-- Whether the log has transaction ids that this cluster has not given, wherever it was last adopted:
-- in its rows, or in what was archived or removed.
create or replace function {schema}.is_foreign() returns boolean
language plpgsql volatile as $$
declare
  found_foreign boolean;
begin
  -- The snapshot sees no transaction from its own xmax on, except this one. Ordered, because for a
  -- plain EXISTS the planner, until the table is analysed, expects to find such a row soon and scans
  -- the whole table.
  select
    (
      select true
      from {schema}.messages
      where transaction_id >= {schema}.transaction_base() + greatest(
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
        pg_current_xact_id_if_assigned()::text::bigint + 1
      )
      order by transaction_id, "position"
      limit 1
    ) is not null
    or ({schema}.history_end()).transaction_id >= {schema}.transaction_base() + greatest(
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
      pg_current_xact_id_if_assigned()::text::bigint + 1
    )
  into found_foreign;
  return found_foreign;
end;
$$;
