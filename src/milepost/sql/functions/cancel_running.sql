-- End running jobs as cancelled; called by the worker that runs them. A job with keep_for is kept
-- for that time; the others are deleted soon.
create or replace function {schema}.cancel_running(
  ids bigint[], attempts integer[], errors text[] default null, tokens bigint[] default null
) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  changed bigint[];
  changed_attempts integer[];
  changed_tokens bigint[];
  followed bigint[];  -- ended, and others wait for them
begin
  perform {schema}.refuse_uneven(
    'ids attempts errors tokens', coalesce(cardinality(cancel_running.ids), 0),
    coalesce(cardinality(cancel_running.attempts), 0), cardinality(cancel_running.errors),
    cardinality(cancel_running.tokens)
  );
  with asked as materialized (
    select a.id, a.attempt, a.token, a.error
    from unnest(
      cancel_running.ids, cancel_running.attempts, cancel_running.tokens, cancel_running.errors
    ) as a (id, attempt, token, error)
    order by a.id
  ),
  ended as (
    update {schema}.jobs as j
    set status = 'cancelled', is_cancelled = true, locked_until = null,
      last_error = coalesce(left(asked.error, 11000), j.last_error),
      finished_at = clock_timestamp(),
      kept_until = clock_timestamp() + coalesce(j.keep_for, interval '0')
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning j.id, j.attempt, j.token, j.has_followers, j.finished_at
  )
  select
    array_agg(id), array_agg(attempt), array_agg(token),
    array_agg(id) filter (where has_followers and finished_at is not null)
  from ended into changed, changed_attempts, changed_tokens, followed;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  return query
  select * from {schema}.verdicts(
    cancel_running.ids, cancel_running.attempts, cancel_running.tokens,
    changed, changed_attempts, changed_tokens
  );
end;
$$;
