-- Rows above the sequence's value came without it: restored, or replicated. So did an archive, or a
-- marker of what was removed, if it is above. New positions would fill gaps that readers have
-- passed, or collide; so nothing is appended or read. rebase() repairs it.
create or replace function {schema}.refuse_foreign_rows() returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  newest bigint;
  is_ahead boolean;
begin
  -- One statement, so that its snapshot is older than the sequence's value: a row above that
  -- value was not drawn from this sequence. Ordered, because for a plain EXISTS the planner,
  -- until the table is analysed, expects to find such a row soon and scans the whole table.
  select sequence.newest, (
    select true
    from {schema}.messages
    where (transaction_id, "position") > (0, sequence.newest)
    order by transaction_id, "position"
    limit 1
  ) is not null or ({schema}.history_end()).position > sequence.newest
  into newest, is_ahead
  from (
    select coalesce(pg_sequence_last_value('{schema}.messages_position_seq'), 0)
  ) as sequence (newest);
  if is_ahead then
    raise exception 'the log has positions that its sequence, at %, has not drawn', newest
      using errcode = 'MP003',
      hint = 'The rows, or the archive, were restored or replicated without the sequence, or name a transaction_id. Run: milepost rebase';
  end if;
end;
$$;
