-- Append one message in the caller's transaction, unless the log has a message with this id; returns
-- the position of the one that it has. For a producer that repeats an append whose answer was lost.
-- A message that retention has removed counts for 7 days. Types of JSON: as in append().
create or replace function {schema}.append_once(
  type text,
  data json,
  id uuid,
  key text default null,
  topic text default 'default',
  metadata json default '{}'
) returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  found {schema}.position;
begin
  perform {schema}.refuse_oversized(append_once.data, append_once.metadata);
  select a.transaction_id, a."position"
  into found
  from {schema}.append_conditionally(
    array[append_once.id], array[append_once.topic], array[append_once.key],
    array[append_once.type], array[append_once.data], array[append_once.metadata], once => true
  ) as a;
  return found;
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append_once(
  type text,
  data text,
  id uuid,
  key text default null,
  topic text default 'default',
  metadata text default '{}'
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append_once(type, data::json, id, key, topic, metadata::json);
end;
$$;

create or replace function {schema}.append_once(
  type text,
  data jsonb,
  id uuid,
  key text default null,
  topic text default 'default',
  metadata jsonb default '{}'
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append_once(type, data::json, id, key, topic, metadata::json);
end;
$$;
