-- Append one message in the caller's transaction, unless its key has messages after a position that
-- are of these types (null: of any). `after` is what the caller has read: the position of the last
-- message of the key, row(0, 0) if there was none. Returns the position, or fails with MP010. Exact
-- if all who append this key do so with a condition (refuse_newer.sql). Types of JSON: as in append().
create or replace function {schema}.append_unless_newer(
  type text,
  data json,
  key text,
  after {schema}.position,
  types text[] default null,
  topic text default 'default',
  metadata json default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
begin
  perform {schema}.refuse_newer(
    append_unless_newer.key, append_unless_newer.after, append_unless_newer.types
  );
  return {schema}.append(
    append_unless_newer.type, append_unless_newer.data, append_unless_newer.key,
    append_unless_newer.topic, append_unless_newer.metadata, append_unless_newer.id
  );
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append_unless_newer(
  type text,
  data text,
  key text,
  after {schema}.position,
  types text[] default null,
  topic text default 'default',
  metadata text default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append_unless_newer(
    type, data::json, key, after, types, topic, metadata::json, id
  );
end;
$$;

create or replace function {schema}.append_unless_newer(
  type text,
  data jsonb,
  key text,
  after {schema}.position,
  types text[] default null,
  topic text default 'default',
  metadata jsonb default '{}',
  id uuid default null
) returns {schema}.position
language plpgsql volatile as $$
begin
  return {schema}.append_unless_newer(
    type, data::json, key, after, types, topic, metadata::json, id
  );
end;
$$;
