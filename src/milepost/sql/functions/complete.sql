-- Complete jobs, each identified by its attempt and, if its take returned one, its token. Returns a
-- verdict for each, in order. A job with keep_for stays as done, with its result; the others are
-- deleted. Both kinds in one batch need two statements, so all are locked first, unless the caller
-- knows that none is kept. If others wait for a job, they are told (note_endings).
--
-- This function and the others that change jobs lock them in the order of their ids, so that two
-- sessions never deadlock: `asked` is sorted, and the settings force the planner to look them up
-- one after the other. The settings also prevent it from reading the whole table, which may have
-- been empty when it made its plan. A plan for a batch of known size would, where the table is small,
-- compare each job of the batch with each job of the table: hence the generic plan, and nothing is
-- materialised. A job is running if it is locked; with a condition on the status instead, the planner
-- might use the index of all running jobs.
create or replace function {schema}.complete(
  ids bigint[],
  attempts integer[],
  results bytea[] default null,
  tokens bigint[] default null,
  none_is_kept boolean default false
) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  finished bigint[];
  finished_attempts integer[];
  finished_tokens bigint[];
  followed bigint[];
begin
  perform {schema}.refuse_uneven(
    'ids attempts results tokens', coalesce(cardinality(complete.ids), 0),
    coalesce(cardinality(complete.attempts), 0), cardinality(complete.results),
    cardinality(complete.tokens)
  );
  if not complete.none_is_kept then
    perform {schema}.lock_jobs(complete.ids);
  end if;
  with deleted as (
    delete from {schema}.jobs as j
    -- Not as a join: a planner that believes that the table is empty would read the whole index of
    -- ids, with the dead entries that an old snapshot keeps. -1 stands for no token.
    -- A case, so that it does not become a join again.
    where j.id = any(complete.ids) and j.locked_until is not null and j.keep_for is null
      and case when (j.id, j.attempt, coalesce(j.token, -1)) in (
        select a.id, a.attempt, coalesce(a.token, -1)
        from unnest(complete.ids, complete.attempts, complete.tokens) as a (id, attempt, token)
      ) then true end
    returning j.id, j.attempt, j.token, j.has_followers
  )
  select
    array_agg(id), array_agg(attempt), array_agg(token), array_agg(id) filter (where has_followers)
  from deleted into finished, finished_attempts, finished_tokens, followed;
  if followed is not null then
    perform {schema}.note_endings(followed, 'done');
  end if;
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
    returning j.id, j.attempt, j.token, j.has_followers
  )
  select
    finished || array_agg(id), finished_attempts || array_agg(attempt),
    finished_tokens || array_agg(token), array_agg(id) filter (where has_followers)
  from kept into finished, finished_attempts, finished_tokens, followed;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  return query
  select * from {schema}.verdicts(
    complete.ids, complete.attempts, complete.tokens, finished, finished_attempts, finished_tokens
  );
end;
$$;
