-- Put many jobs, their contents and states as bytes, in the caller's transaction; returns their
-- ids, in order. An array that is not given, or a null in it, means the default. An element of
-- `afters` is an array of ids as text, such as '{1,2}', because the rows of an array of arrays all
-- have one length. `trace` is one for all of them: see put_bytes().
create or replace function {schema}.put_many_bytes(
  channels text[],
  contents bytea[],
  run_ats timestamptz[] default null,
  priorities integer[] default null,
  max_attempts integer[] default null,
  unique_keys text[] default null,
  states bytea[] default null,
  keep_for interval[] default null,
  afters text[] default null,
  on_dead text[] default null,
  replaces boolean[] default null,
  unique_for interval[] default null,
  trace text default null
) returns setof bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  ids bigint[];
begin
  perform {schema}.refuse_uneven(
    'channels contents run_ats priorities max_attempts unique_keys states keep_for afters on_dead '
    'replaces unique_for',
    coalesce(cardinality(put_many_bytes.channels), 0),
    coalesce(cardinality(put_many_bytes.contents), 0), cardinality(put_many_bytes.run_ats),
    cardinality(put_many_bytes.priorities), cardinality(put_many_bytes.max_attempts),
    cardinality(put_many_bytes.unique_keys), cardinality(put_many_bytes.states),
    cardinality(put_many_bytes.keep_for), cardinality(put_many_bytes.afters),
    cardinality(put_many_bytes.on_dead), cardinality(put_many_bytes.replaces),
    cardinality(put_many_bytes.unique_for)
  );
  -- Array by array: most are not given. The others are checked in put_bytes().
  if array_position(put_many_bytes.contents, null) is not null
    or exists (
      select from unnest(put_many_bytes.channels) as c
      where (char_length(c) between 1 and 255) is not true
    )
    or exists (
      select from unnest(put_many_bytes.run_ats) as r
      where r not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00'
    )
    or exists (
      select from unnest(put_many_bytes.priorities) as p where p not between -32768 and 32767
    )
    or exists (select from unnest(put_many_bytes.max_attempts) as m where m <= 0)
    or exists (select from unnest(put_many_bytes.keep_for) as k where k <= interval '0')
  then
    perform {schema}.refuse_job(
      a.channel, a.content, a.run_at, coalesce(a.priority, 0), coalesce(a.max_attempts, 25), null,
      a.keep_for, null, null
    )
    from unnest(
      put_many_bytes.channels, put_many_bytes.contents, put_many_bytes.run_ats,
      put_many_bytes.priorities, put_many_bytes.max_attempts, put_many_bytes.keep_for
    ) as a (channel, content, run_at, priority, max_attempts, keep_for);
  end if;
  perform {schema}.refuse_argument('an element of afters', a, 'ids, such as {17,18}')
  from unnest(put_many_bytes.afters) as a where a !~ '^[\s\d,{}-]+$';
  if exists (select from unnest(put_many_bytes.unique_keys) as k where k is not null)
    or exists (select from unnest(put_many_bytes.afters) as a where a is not null)
    or exists (select from unnest(put_many_bytes.replaces) as r where r)
    or exists (select from unnest(put_many_bytes.unique_for) as u where u is not null)
  then
    return query
    select {schema}.put_bytes(
      a.channel, a.content, a.run_at, coalesce(a.priority, 0), coalesce(a.max_attempts, 25),
      a.unique_key, a.state, a.keep_for, a.after::bigint[], a.on_dead, coalesce(a.replace, false),
      a.unique_for, put_many_bytes.trace
    )
    from unnest(
      put_many_bytes.channels, put_many_bytes.contents, put_many_bytes.run_ats,
      put_many_bytes.priorities, put_many_bytes.max_attempts, put_many_bytes.unique_keys,
      put_many_bytes.states, put_many_bytes.keep_for, put_many_bytes.afters,
      put_many_bytes.on_dead, put_many_bytes.replaces, put_many_bytes.unique_for
    ) with ordinality as a (
      channel, content, run_at, priority, max_attempts, unique_key, state, keep_for, after, on_dead,
      replace, unique_for, number
    )
    order by a.number;
    return;
  end if;

  call {schema}.put_jobs(
    ids, put_many_bytes.channels, put_many_bytes.contents, put_many_bytes.run_ats,
    put_many_bytes.priorities, put_many_bytes.max_attempts, put_many_bytes.states,
    put_many_bytes.keep_for, put_many_bytes.trace
  );
  return query select unnest(ids);
end;
$$;
