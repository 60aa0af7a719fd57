-- Put running jobs back until later: after `delays` from now by the server's clock, or at
-- `run_ats`, else immediately, after the ready jobs of their channel. Their slots become free. A
-- state that is null or not given is not changed. A job that was asked to stop ends here, as
-- cancelled.
create or replace function {schema}.defer(
  ids bigint[],
  attempts integer[],
  delays interval[] default null,
  run_ats timestamptz[] default null,
  states bytea[] default null,
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
    'ids attempts delays run_ats states tokens', coalesce(cardinality(defer.ids), 0),
    coalesce(cardinality(defer.attempts), 0), cardinality(defer.delays),
    cardinality(defer.run_ats), cardinality(defer.states), cardinality(defer.tokens)
  );
  with asked as materialized (
    select
      a.id, a.attempt, a.token, a.state,
      {schema}.in_range(coalesce(
        a.run_at, clock_timestamp() + coalesce(a.delay, interval '0')
      )) as run_at
    from unnest(
      defer.ids, defer.attempts, defer.tokens, defer.delays, defer.run_ats, defer.states
    ) as a (id, attempt, token, delay, run_at, state)
    order by a.id
  ),
  deferred as (
    update {schema}.jobs as j
    set status = case
        when j.is_cancelled then 'cancelled'
        when asked.run_at > clock_timestamp() then 'scheduled'
        else 'ready'
      end::{schema}.job_status,
      run_at = asked.run_at,
      state = coalesce(asked.state, j.state),
      crashes = 0,
      locked_until = null,
      finished_at = case when j.is_cancelled then clock_timestamp() end,
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
  from deferred into changed, changed_attempts, changed_tokens, followed;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  return query
  select * from {schema}.verdicts(
    defer.ids, defer.attempts, defer.tokens, changed, changed_attempts, changed_tokens
  );
end;
$$;
