-- Append one message in the caller's transaction; returns its position. Data and metadata are JSON,
-- stored as written. There is one function for each SQL type that JSON may have. An untyped literal
-- is text, the preferred type, whatever types the others accept (docs/decisions/0018).
--
-- RETURNING uses no column: an appender needs no privilege other than INSERT (last_position.sql).
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
  returning {schema}.transaction_id(), {schema}.last_position() into appended;
  return appended;
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append(
  type text,
  data text,
  key text default null,
  topic text default 'default',
  metadata text default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append(type, data::json, key, topic, metadata::json, id);
end;
$$;

create or replace function {schema}.append(
  type text,
  data jsonb,
  key text default null,
  topic text default 'default',
  metadata jsonb default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append(type, data::json, key, topic, metadata::json, id);
end;
$$;
