-- Complete jobs, each named with its attempt and, where its take gave one, its token; a verdict for
-- each, in order. A job that is to be kept stays as done, with its result; the others are gone. Both
-- kinds in one batch take two statements, so all are locked first, unless the caller knows that none
-- is kept.
--
-- This and the other verbs lock jobs in the order of their ids, so that two sessions never wait for
-- each other: `asked` is sorted, and the settings leave the planner nothing but to look up one
-- after the other. They also keep it from reading the whole table, which may have been empty when
-- it made its plan. A job runs where it is locked; asked for its status instead, the planner might
-- take the index of all running jobs for the shortest way.
create or replace function {schema}.complete(
  ids bigint[],
  attempts integer[],
  results bytea[] default null,
  tokens bigint[] default null,
  none_is_kept boolean default false
) returns setof {schema}.verdict
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  finished bigint[];
  finished_attempts integer[];
  finished_tokens bigint[];
begin
  if not complete.none_is_kept then
    perform {schema}.lock_jobs(complete.ids);
  end if;
  with asked as materialized (
    select a.id, a.attempt, a.token
    from unnest(complete.ids, complete.attempts, complete.tokens) as a (id, attempt, token)
    order by a.id
  ),
  deleted as (
    delete from {schema}.jobs as j using asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
      and j.keep_for is null
    returning j.id, j.attempt, j.token
  )
  select array_agg(id), array_agg(attempt), array_agg(token)
  from deleted into finished, finished_attempts, finished_tokens;
  if cardinality(finished) = cardinality(complete.ids) then
    return query select 'done'::{schema}.verdict from unnest(complete.ids);
    return;
  end if;

  with asked as materialized (
    select a.id, a.attempt, a.token, a.result
    from unnest(complete.ids, complete.attempts, complete.tokens, complete.results)
      as a (id, attempt, token, result)
    order by a.id
  ),
  kept as (
    update {schema}.jobs as j
    set status = 'done', result = asked.result, locked_until = null,
      finished_at = clock_timestamp(), kept_until = clock_timestamp() + j.keep_for
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
      and j.keep_for is not null
    returning j.id, j.attempt, j.token
  )
  select
    finished || array_agg(id), finished_attempts || array_agg(attempt),
    finished_tokens || array_agg(token)
  from kept into finished, finished_attempts, finished_tokens;
  return query
  select * from {schema}.verdicts(
    complete.ids, complete.attempts, complete.tokens, finished, finished_attempts, finished_tokens
  );
end;
$$;
