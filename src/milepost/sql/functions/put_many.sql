-- Put many jobs in the caller's transaction, like put_many_bytes(); contents and states are JSON,
-- stored as written.
create or replace function {schema}.put_many(
  channels text[],
  contents json[],
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states json[] default null,
  keep_for interval[] default null,
  afters text[] default null,
  on_dead text[] default null,
  replaces boolean[] default null,
  unique_for interval[] default null
) returns setof bigint
language plpgsql volatile as $$
begin
  return query select {schema}.put_many_bytes(
    channels, {schema}.json_bytes(contents), run_ats, priorities, max_attempts, unique_keys,
    {schema}.json_bytes(states), keep_for, afters, on_dead, replaces, unique_for
  );
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.put_many(
  channels text[],
  contents text[],
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states text[] default null,
  keep_for interval[] default null,
  afters text[] default null,
  on_dead text[] default null,
  replaces boolean[] default null,
  unique_for interval[] default null
) returns setof bigint
language plpgsql volatile as $$
begin
  return query select {schema}.put_many(
    channels, contents::json[], run_ats, priorities, max_attempts, unique_keys, states::json[],
    keep_for, afters, on_dead, replaces, unique_for
  );
end;
$$;

create or replace function {schema}.put_many(
  channels text[],
  contents jsonb[],
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states jsonb[] default null,
  keep_for interval[] default null,
  afters text[] default null,
  on_dead text[] default null,
  replaces boolean[] default null,
  unique_for interval[] default null
) returns setof bigint
language plpgsql volatile as $$
begin
  return query select {schema}.put_many(
    channels, contents::json[], run_ats, priorities, max_attempts, unique_keys, states::json[],
    keep_for, afters, on_dead, replaces, unique_for
  );
end;
$$;

-- For an untyped array: a literal, or what psycopg and others send for a list of strings. No array
-- type is preferred, so the call would be ambiguous; text is preferred to all array types.
create or replace function {schema}.put_many(
  channels text[],
  contents text,
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states text default null,
  keep_for interval[] default null,
  afters text[] default null,
  on_dead text[] default null,
  replaces boolean[] default null,
  unique_for interval[] default null
) returns setof bigint
language plpgsql volatile as $$
begin
  return query select {schema}.put_many(
    channels, contents::text[], run_ats, priorities, max_attempts, unique_keys, states::text[],
    keep_for, afters, on_dead, replaces, unique_for
  );
end;
$$;

-- For the release before put_many_bytes(), which calls it with typed parameters. Drop it in the
-- next release.
create or replace function {schema}.put_many(
  channels text[],
  contents bytea[],
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states bytea[] default null,
  keep_for interval[] default null
) returns setof bigint
language plpgsql volatile as $$
begin
  return query select {schema}.put_many_bytes(
    channels, contents, run_ats, priorities, max_attempts, unique_keys, states, keep_for
  );
end;
$$;
