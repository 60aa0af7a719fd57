-- Transaction ids mean something in their own cluster alone. In another one, old messages may
-- be unreadable and new ones sort before the checkpoints, so neither is let happen.
create or replace function {schema}.refuse_foreign_cluster() returns void
language plpgsql volatile as $$
declare
  is_foreign boolean;
begin
  -- The second question finds what the first cannot: a log from a physical copy of this
  -- cluster. Its snapshot has seen no transaction from its own xmax on, but this one. Ordered,
  -- because for a plain EXISTS the planner, until the table is analysed, expects to find such a
  -- row at once and scans it all.
  select
    log.system_identifier <> control.system_identifier
    or (
      select true
      from {schema}.messages
      where transaction_id >= {schema}.transaction_base() + greatest(
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
        pg_current_xact_id_if_assigned()::text::bigint + 1
      )
      order by transaction_id, "position"
      limit 1
    ) is not null
  into is_foreign
  from {schema}.log as log, pg_control_system() as control;
  if is_foreign then
    raise exception 'the log in schema {schema} was restored from another cluster, whose transaction ids order it'
      using errcode = 'MP003',
      hint = 'Nothing is lost. Run: milepost rebase';
  end if;
end;
$$;
