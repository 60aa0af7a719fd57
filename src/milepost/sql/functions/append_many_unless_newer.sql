-- Append many messages, as append_many() does, unless a key has messages after a position that are of
-- these types (null: of any): see append_unless_newer(). Returns the positions, in the same order.
create or replace function {schema}.append_many_unless_newer(
  messages json, key text, after {schema}.position, types text[] default null
) returns setof {schema}.position
language plpgsql volatile as $$
begin
  perform {schema}.refuse_newer(key, after, types);
  return query select * from {schema}.append_many(messages);
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.append_many_unless_newer(
  messages text, key text, after {schema}.position, types text[] default null
) returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many_unless_newer(messages::json, key, after, types);
end;
$$;

create or replace function {schema}.append_many_unless_newer(
  messages jsonb, key text, after {schema}.position, types text[] default null
) returns setof {schema}.position
language plpgsql volatile as $$
begin
  return query select * from {schema}.append_many_unless_newer(messages::json, key, after, types);
end;
$$;
