-- Give running jobs back unchanged, to their former place in their channel, and notify the other
-- workers; or, with a delay, to wait for that long. A job that was asked to stop ends here, as
-- cancelled. A channel that waited for the begin of one of them may release the next job
-- immediately.
create or replace function {schema}.give_back(
  ids bigint[],
  attempts integer[],
  tokens bigint[] default null,
  delays interval[] default null
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
  awaiting text[];
begin
  perform {schema}.refuse_uneven(
    'ids attempts tokens delays', coalesce(cardinality(give_back.ids), 0),
    coalesce(cardinality(give_back.attempts), 0), cardinality(give_back.tokens),
    cardinality(give_back.delays)
  );
  with asked as materialized (
    select a.id, a.attempt, a.token, clock_timestamp() + a.delay as run_at
    from unnest(give_back.ids, give_back.attempts, give_back.tokens, give_back.delays)
      as a (id, attempt, token, delay)
    order by a.id
  ),
  given as (
    update {schema}.jobs as j
    set status = case
        when j.is_cancelled then 'cancelled'
        when asked.run_at is not null then 'scheduled'
        else 'ready'
      end::{schema}.job_status,
      run_at = coalesce(asked.run_at, j.run_at),
      locked_until = null,
      finished_at = case when j.is_cancelled then clock_timestamp() end,
      kept_until = case
        when j.is_cancelled then clock_timestamp() + coalesce(j.keep_for, interval '0')
      end
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning
      j.id, j.attempt, j.token, j.channel, j.is_begin_awaited, j.has_followers, j.finished_at
  )
  select
    array_agg(id), array_agg(attempt), array_agg(token),
    array_agg(channel) filter (where is_begin_awaited),
    array_agg(id) filter (where has_followers and finished_at is not null)
  from given into changed, changed_attempts, changed_tokens, awaiting, followed;
  if followed is not null then
    perform {schema}.note_endings(followed);
  end if;
  -- It was released when it was due, so it is due now. Locked in the order of names, as everywhere.
  if cardinality(awaiting) > 0 then
    perform from {schema}.channels as c
    where c.name = any(awaiting collate "C") order by c.name for update;
    update {schema}.channels as c set next_release_at = clock_timestamp()
    where c.name = any(awaiting collate "C");
  end if;
  if cardinality(changed) > 0 then
    perform pg_notify(concat({channel}, '_queue'), '');
  end if;
  return query
  select * from {schema}.verdicts(
    give_back.ids, give_back.attempts, give_back.tokens, changed, changed_attempts, changed_tokens
  );
end;
$$;
