-- Append one message in the caller's transaction; answers with its position.
create or replace function {schema}.append(
  type text,
  data json,
  key text default null,
  topic text default 'default',
  metadata json default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  appended {schema}.position;
begin
  perform {schema}.refuse_oversized(append.data, append.metadata);
  insert into {schema}.messages (id, topic, key, type, data, metadata)
  values (
    coalesce(append.id, {schema}.uuid7()),
    append.topic, append.key, append.type, append.data, append.metadata
  )
  returning transaction_id, "position" into appended;
  return appended;
end;
$$;
