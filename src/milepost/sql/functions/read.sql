-- Messages after a position, in order, none above the horizon. A filter removes messages but never
-- reorders them. Refuses a position after which messages were removed. Fewer than max_count rows mean that everything up to the horizon was read; to know
-- which horizon that was, call horizon() before and pass it as up_to.
create or replace function {schema}.read(
  after {schema}.position default null,
  max_count integer default 100,
  topics text[] default null,
  types text[] default null,
  segment {schema}.segment default null,
  up_to {schema}.position default null
) returns setof {schema}.messages
language plpgsql volatile
-- The primary key gives the order, and the scan stops at max_count. Without these settings the
-- planner sorts, or starts parallel workers, for a filter that it believes to be selective, and
-- scans the whole log for each batch.
set jit = off set enable_sort = off set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
  first_transaction_id constant bigint := coalesce((after).transaction_id, 0);
  first_position constant bigint := coalesce((after).position, 0);
  horizon {schema}.position := up_to;
begin
  perform {schema}.refuse_unsafe_read();
  if horizon is null then
    horizon := {schema}.horizon();
  end if;
  -- A separate statement: its snapshot is later than the horizon. The scalar bounds repeat the row
  -- comparisons, for the planner.
  return query
  select m."position", m.transaction_id, m.id, m.topic, m.key, m.type, m.data, m.metadata,
    m.recorded_at
  from {schema}.messages as m
  where (m.transaction_id, m."position") > (first_transaction_id, first_position)
    and (m.transaction_id, m."position") <= ((horizon).transaction_id, (horizon).position)
    and m.transaction_id >= first_transaction_id
    and m.transaction_id <= (horizon).transaction_id
    -- In the same statement, so that it sees what the rows' snapshot sees.
    and {schema}.refuse_removed(row(first_transaction_id, first_position)::{schema}.position)
    and (read.topics is null or m.topic = any(read.topics))
    and (read.types is null or m.type = any(read.types))
    and (
      (read.segment).mask is null
      or ({schema}.key_hash(m.key) & (read.segment).mask) = (read.segment).id
    )
  order by m.transaction_id, m."position"
  limit read.max_count;
end;
$$;
