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
  perform {schema}.refuse_uneven(
    'channels contents run_ats priorities max_attempts unique_keys states keep_for afters on_dead '
    'replaces unique_for',
    coalesce(cardinality(put_many.channels), 0), coalesce(cardinality(put_many.contents), 0),
    cardinality(put_many.run_ats), cardinality(put_many.priorities),
    cardinality(put_many.max_attempts), cardinality(put_many.unique_keys),
    cardinality(put_many.states), cardinality(put_many.keep_for), cardinality(put_many.afters),
    cardinality(put_many.on_dead), cardinality(put_many.replaces),
    cardinality(put_many.unique_for)
  );
  -- The same condition as in put().
  perform {schema}.refuse_job(
    a.channel, a.content is not null, a.run_at, coalesce(a.priority, 0),
    coalesce(a.max_attempts, 25), a.unique_key, a.keep_for, a.on_dead, a.unique_for
  )
  from unnest(
    put_many.channels, put_many.contents, put_many.run_ats, put_many.priorities,
    put_many.max_attempts, put_many.unique_keys, put_many.keep_for, put_many.on_dead,
    put_many.unique_for
  ) as a (
    channel, content, run_at, priority, max_attempts, unique_key, keep_for, on_dead, unique_for
  )
  where (char_length(a.channel) between 1 and 255 and a.content is not null) is not true
    or a.priority not between -32768 and 32767 or a.max_attempts <= 0
    or a.run_at not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00'
    or a.keep_for <= interval '0' or a.unique_for <= interval '0'
    or char_length(a.unique_key) not between 1 and 1024
    or a.on_dead not in ('wait', 'cancel', 'run');
  perform {schema}.refuse_argument('an element of afters', a, 'ids, such as {17,18}')
  from unnest(put_many.afters) as a where a !~ '^[\s\d,{}-]+$';
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
