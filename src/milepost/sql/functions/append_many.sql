-- Append many messages in the caller's transaction, in the order of a JSON array of objects
-- {"type", "data", "key", "topic", "metadata", "id"}; all but type and data are optional. Returns
-- the positions, in the same order. RETURNING and the types of JSON: as in append().
create or replace function {schema}.append_many(messages json)
returns setof {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
begin
  return query
  with given as materialized (
    select
      element.ordinality, message.id, message.topic, message.key, message.type, message.metadata,
      element.body -> 'data' as data  -- in a record, a JSON null would become an SQL null
    from json_array_elements(append_many.messages) with ordinality as element (body, ordinality)
    cross join lateral json_to_record(element.body) as message (
      id uuid, topic text, key text, type text, metadata json
    )
  ),
  accepted as materialized (
    select given.*, {schema}.refuse_oversized(given.data, coalesce(given.metadata, '{}'))
    from given
  ),
  appended as (
    insert into {schema}.messages (id, topic, key, type, data, metadata)
    select
      coalesce(id, {schema}.uuid7()), coalesce(topic, 'default'), key, type, data,
      coalesce(metadata, '{}')
    from accepted
    order by ordinality
    returning {schema}.transaction_id() as transaction_id, {schema}.last_position() as "position"
  )
  select transaction_id, "position" from appended order by "position";
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append_many(messages text)
returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many(messages::json);
end;
$$;

create or replace function {schema}.append_many(messages jsonb)
returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many(messages::json);
end;
$$;
