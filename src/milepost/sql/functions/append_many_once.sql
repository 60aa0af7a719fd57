-- Append many messages, as append_many() does, without those whose ids the log has: see append_once().
-- Each must have an id. Returns the positions of all, in the same order.
create or replace function {schema}.append_many_once(messages json)
returns setof {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
begin
  return query
  with given as materialized (
    select
      element.ordinality, message.id, coalesce(message.topic, 'default') as topic, message.key,
      message.type, element.body -> 'data' as data, coalesce(message.metadata, '{}') as metadata
    from json_array_elements(append_many_once.messages)
      with ordinality as element (body, ordinality)
    cross join lateral json_to_record(element.body) as message (
      id uuid, topic text, key text, type text, metadata json
    )
  ),
  accepted as materialized (
    select given.*, {schema}.refuse_oversized(given.data, given.metadata) from given
  ),
  columns as (
    select
      array_agg(id order by ordinality) as ids, array_agg(topic order by ordinality) as topics,
      array_agg(key order by ordinality) as keys, array_agg(type order by ordinality) as types,
      array_agg(data order by ordinality) as data,
      array_agg(metadata order by ordinality) as metadata
    from accepted
  )
  select a.transaction_id, a."position"
  from columns as c
  cross join lateral {schema}.append_conditionally(
    c.ids, c.topics, c.keys, c.types, c.data, c.metadata, once => true
  ) with ordinality as a (transaction_id, "position", is_new, ordinality)
  where c.ids is not null
  order by a.ordinality;
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append_many_once(messages text)
returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many_once(messages::json);
end;
$$;

create or replace function {schema}.append_many_once(messages jsonb)
returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many_once(messages::json);
end;
$$;
