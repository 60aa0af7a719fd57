-- Extend the locks of running jobs, and keep their progress if one is given. 'cancelled' tells that
-- the job is held on, but was asked to stop. SKIP LOCKED, because two sessions of one worker, one
-- extending and one completing, would otherwise wait for each other: what is being changed just now
-- counts as done.
create or replace function {schema}.heartbeat(
  ids bigint[],
  attempts integer[],
  lock_for interval,
  progress bytea[] default null,
  tokens bigint[] default null
) returns setof {schema}.verdict
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  with asked as materialized (
    select *
    from unnest(heartbeat.ids, heartbeat.attempts, heartbeat.tokens, heartbeat.progress)
      with ordinality as a (id, attempt, token, progress, number)
  ),
  held as materialized (
    select j.id, j.attempt, asked.progress from {schema}.jobs as j
    join asked on j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token
    where j.locked_until is not null
    for update of j skip locked
  ),
  extended as (
    update {schema}.jobs as j
    set locked_until = clock_timestamp() + heartbeat.lock_for,
      progress = coalesce(held.progress, j.progress)
    from held
    where j.id = held.id
    returning j.id, j.attempt, j.token, j.is_cancelled
  )
  select case
      when extended.is_cancelled then 'cancelled'
      when extended.id is not null then 'done'
      when j.id is null or j.status in ('done', 'cancelled') then 'gone'
      when j.attempt = asked.attempt and j.token is not distinct from asked.token
        and j.status = 'running' then 'done'
      else 'stale'
    end::{schema}.verdict
  from asked
  left join extended on extended.id = asked.id and extended.attempt = asked.attempt
    and extended.token is not distinct from asked.token
  left join {schema}.jobs as j on j.id = asked.id
  order by asked.number;
end;
$$;
