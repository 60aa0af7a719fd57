-- Remove the oldest messages, at most `max_count`, none above `up_to`, and none that a consumer has
-- not passed (retention_gates). Returns how many were removed, and the position up to which all
-- are. The marker in `log` is raised in the same transaction, so that a reader is refused instead
-- of being given less than there was (refuse_removed).
--
-- The lock comes first: a reset waits for it, so that the gates, which are read by a later
-- statement, are those of all resets before, and a later reset sees the marker.
create or replace function {schema}.remove_messages(
  max_count integer, up_to {schema}.position,
  out number bigint, out transaction_id bigint, out "position" bigint
)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_sort = off set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
  removed {schema}.position;
  last {schema}.position;
begin
  perform {schema}.await_lock(
    hashtextextended('milepost.removal.{schema}', 0), 'the removal of messages'
  );
  select l.removed_transaction_id, l.removed_position into removed from {schema}.log as l;
  last := least(
    remove_messages.up_to,
    (
      select row(g.transaction_id, g."position")::{schema}.position
      from {schema}.retention_gates() as g
      order by g.transaction_id, g."position"
      limit 1
    )
  );
  select chunk.transaction_id, chunk."position"
  into last
  from (
    select m.transaction_id, m."position"
    from {schema}.messages as m
    where (m.transaction_id, m."position") > ((removed).transaction_id, (removed).position)
      and (m.transaction_id, m."position") <= ((last).transaction_id, (last).position)
    order by m.transaction_id, m."position"
    limit remove_messages.max_count
  ) as chunk
  order by chunk.transaction_id desc, chunk."position" desc
  limit 1;
  if last is null then
    number := 0;
    last := removed;
  else
    perform {schema}.remember_removed(removed, last);
    delete from {schema}.messages as m
    where (m.transaction_id, m."position") > ((removed).transaction_id, (removed).position)
      and (m.transaction_id, m."position") <= ((last).transaction_id, (last).position);
    get diagnostics number = row_count;
    update {schema}.log
    set removed_transaction_id = (last).transaction_id, removed_position = (last).position;
  end if;
  transaction_id := (last).transaction_id;
  "position" := (last).position;
end;
$$;
