-- Record failed attempts: each job waits for its delay and is then taken again. After
-- `max_attempts` failures, or immediately if `finals` says so, it becomes dead. A job that was
-- asked to stop ends here, as cancelled.
create or replace function {schema}.fail(
  ids bigint[],
  attempts integer[],
  delays interval[] default null,
  errors text[] default null,
  finals boolean[] default null,
  tokens bigint[] default null
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
    'ids attempts delays errors finals tokens', coalesce(cardinality(fail.ids), 0),
    coalesce(cardinality(fail.attempts), 0), cardinality(fail.delays), cardinality(fail.errors),
    cardinality(fail.finals), cardinality(fail.tokens)
  );
  with asked as materialized (
    select
      a.id, a.attempt, a.token, a.error, coalesce(a.delay, interval '0') as delay,
      coalesce(a.is_final, false) as is_final
    from unnest(fail.ids, fail.attempts, fail.tokens, fail.delays, fail.errors, fail.finals)
      as a (id, attempt, token, delay, error, is_final)
    order by a.id
  ),
  failed as (
    update {schema}.jobs as j
    set status = case
        when j.is_cancelled then 'cancelled'
        when asked.is_final or j.failures + 1 >= j.max_attempts then 'dead'
        when asked.delay > interval '0' then 'scheduled'
        else 'ready'
      end::{schema}.job_status,
      failures = j.failures + 1,
      crashes = 0,
      run_at = {schema}.in_range(clock_timestamp() + asked.delay),
      -- Python sends a bounded error; other callers may send a whole document.
      last_error = left(asked.error, 11000),
      locked_until = null,
      finished_at = case
        when j.is_cancelled or asked.is_final or j.failures + 1 >= j.max_attempts
        then clock_timestamp()
      end,
      kept_until = case
        when j.is_cancelled then clock_timestamp() + coalesce(j.keep_for, interval '0')
      end
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning j.id, j.attempt, j.token, j.has_followers, j.finished_at
  )
  select
    array_agg(id), array_agg(attempt), array_agg(token),
    array_agg(id) filter (where has_followers and finished_at is not null)
  from failed into changed, changed_attempts, changed_tokens, followed;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  return query
  select * from {schema}.verdicts(
    fail.ids, fail.attempts, fail.tokens, changed, changed_attempts, changed_tokens
  );
end;
$$;
