-- Extend the locks of running jobs, and store their progress if given. 'cancelled' means that the
-- lock was extended, but the job was asked to stop. `begun` says which of them have begun, for
-- workers that take ahead (see take_from). SKIP LOCKED, because two sessions of one
-- worker, one extending and one completing, would otherwise deadlock: a job that is being changed
-- now counts as done.
create or replace function {schema}.heartbeat(
  ids bigint[],
  attempts integer[],
  lock_for interval,
  progress bytea[] default null,
  tokens bigint[] default null,
  begun boolean[] default null
) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  perform {schema}.refuse_uneven(
    'ids attempts progress tokens begun', coalesce(cardinality(heartbeat.ids), 0),
    coalesce(cardinality(heartbeat.attempts), 0), cardinality(heartbeat.progress),
    cardinality(heartbeat.tokens), cardinality(heartbeat.begun)
  );
  if (heartbeat.lock_for > interval '0') is not true then
    perform {schema}.refuse_argument('lock_for', heartbeat.lock_for::text, 'more than 0');
  end if;
  return query
  with asked as materialized (
    select *
    from unnest(
      heartbeat.ids, heartbeat.attempts, heartbeat.tokens, heartbeat.progress, heartbeat.begun
    ) with ordinality as a (id, attempt, token, progress, is_begun, number)
  ),
  held as materialized (
    select j.id, j.attempt, asked.progress, asked.is_begun from {schema}.jobs as j
    join asked on j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token
    where j.locked_until is not null
    for update of j skip locked
  ),
  extended as (
    update {schema}.jobs as j
    set locked_until = clock_timestamp() + heartbeat.lock_for,
      progress = coalesce(held.progress, j.progress),
      is_begun = j.is_begun or coalesce(held.is_begun, false)
    from held
    where j.id = held.id
    returning j.id, j.attempt, j.token, j.is_cancelled
  )
  select case
      -- Written so that the planner can hash it: see verdicts().
      when (asked.id, asked.attempt, coalesce(asked.token, -1)) in (
        select e.id, e.attempt, coalesce(e.token, -1) from extended as e where e.is_cancelled
      ) then 'cancelled'
      when (asked.id, asked.attempt, coalesce(asked.token, -1)) in (
        select e.id, e.attempt, coalesce(e.token, -1) from extended as e
      ) then 'done'
      when j.id is null or j.status in ('done', 'cancelled') then 'gone'
      when j.attempt = asked.attempt and j.token is not distinct from asked.token
        and j.status = 'running' then 'done'
      else 'stale'
    end::{schema}.verdict
  from asked
  left join {schema}.jobs as j on j.id = asked.id
  order by asked.number;
end;
$$;
