-- Put one job in the caller's transaction, as put_bytes() does; content and state are JSON, kept as
-- it was written. One function for each type that SQL people have their JSON in. An untyped literal
-- means text, the preferred type, whatever the others take (docs/decisions/0018).
create or replace function {schema}.put(
  channel text,
  content json,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state json default null,
  keep_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put_bytes(
    channel, convert_to(content::text, 'UTF8'), run_at, priority, max_attempts, unique_key,
    convert_to(state::text, 'UTF8'), keep_for
  );
end;
$$;

-- What is not JSON is refused here.
create or replace function {schema}.put(
  channel text,
  content text,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state text default null,
  keep_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put(
    channel, content::json, run_at, priority, max_attempts, unique_key, state::json, keep_for
  );
end;
$$;

create or replace function {schema}.put(
  channel text,
  content jsonb,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state jsonb default null,
  keep_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put(
    channel, content::json, run_at, priority, max_attempts, unique_key, state::json, keep_for
  );
end;
$$;

-- For the release before put_bytes(), which calls it with typed parameters: to be dropped one
-- release later.
create or replace function {schema}.put(
  channel text,
  content bytea,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state bytea default null,
  keep_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put_bytes(
    channel, content, run_at, priority, max_attempts, unique_key, state, keep_for
  );
end;
$$;
