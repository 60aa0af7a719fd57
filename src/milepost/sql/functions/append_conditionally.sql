-- Append messages, given as columns, in their order. `once`: leave out those whose ids the log has.
-- With `newer_key`: refuse if there are newer messages of that key (refuse_newer.sql). Returns the
-- position of each, and whether this call has appended it. What `append(unless=..., once=...)` and
-- the functions for SQL callers have in common.
--
-- A message that is there already satisfies nobody's condition and violates none: if all of them are,
-- the condition is not looked at, and they do not count as newer. So a conditional append can be
-- repeated after a lost answer. For this, the lock comes before the ids are looked up.
create or replace function {schema}.append_conditionally(
  ids uuid[], topics text[], keys text[], types text[], data json[], metadata json[],
  once boolean default false,
  newer_key text default null, newer_after {schema}.position default null,
  newer_types text[] default null
) returns table (transaction_id bigint, "position" bigint, is_new boolean)
language plpgsql volatile as $$
#variable_conflict use_column
begin
  if append_conditionally.once then
    return query
    select a.transaction_id, a."position", a.is_new
    from {schema}.append_missing(
      ids, topics, keys, types, data, metadata, newer_key, newer_after, newer_types
    ) as a;
    return;
  end if;
  perform {schema}.refuse_newer(newer_key, newer_after, newer_types);
  if cardinality(ids) = 1 then  -- most are, and this is half of the work
    return query
    insert into {schema}.messages (id, topic, key, type, data, metadata)
    values (ids[1], topics[1], keys[1], types[1], data[1], metadata[1])
    returning {schema}.transaction_id(), {schema}.last_position(), true;
    return;
  end if;
  return query
  with appended as (
    insert into {schema}.messages (id, topic, key, type, data, metadata)
    select g.id, g.topic, g.key, g.type, g.data, g.metadata
    from unnest(ids, topics, keys, types, data, metadata)
      with ordinality as g (id, topic, key, type, data, metadata, ordinality)
    order by g.ordinality
    returning {schema}.transaction_id() as transaction_id, {schema}.last_position() as "position"
  )
  select a.transaction_id, a."position", true from appended as a order by a."position";
end;
$$;
