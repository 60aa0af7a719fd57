-- The messages of one key after a position, in order, none above the horizon. As read(), by the
-- optional index: the cost does not depend on the messages of other keys.
create or replace function {schema}.read_key(
  key text,
  after {schema}.position default null,
  max_count integer default 100,
  topics text[] default null,
  types text[] default null,
  up_to {schema}.position default null
) returns setof {schema}.messages
language plpgsql volatile
-- As in read(). The key is compared as part of the row: see refuse_newer.sql.
set jit = off set enable_sort = off set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
declare
  first_transaction_id constant bigint := coalesce((after).transaction_id, 0);
  first_position constant bigint := coalesce((after).position, 0);
  horizon {schema}.position := up_to;
begin
  perform {schema}.refuse_unsafe_read();
  perform {schema}.refuse_unindexed('messages_key', 'reading by key', '--with-key-index');
  if horizon is null then
    horizon := {schema}.horizon();
  end if;
  return query
  select m."position", m.transaction_id, m.id, m.topic, m.key, m.type, m.data, m.metadata,
    m.recorded_at
  from {schema}.messages as m
  where m.key is not null
    and (m.key, m.transaction_id, m."position")
      > (read_key.key, first_transaction_id, first_position)
    and (m.key, m.transaction_id, m."position")
      <= (read_key.key, (horizon).transaction_id, (horizon).position)
    and {schema}.refuse_removed(row(first_transaction_id, first_position)::{schema}.position)
    and (read_key.topics is null or m.topic = any(read_key.topics))
    and (read_key.types is null or m.type = any(read_key.types))
  order by m.key, m.transaction_id, m."position"
  limit read_key.max_count;
end;
$$;
