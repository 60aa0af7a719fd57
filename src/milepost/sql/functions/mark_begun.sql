-- Record that attempts begin, for workers that take ahead (see take_from). Before the handler is
-- called, without `begun_ago`: for a last attempt, so that no job begins more often than
-- `max_attempts`, and for one that runs alone. After it was called, with `begun_ago`: the time
-- since its begin, at most. Then the channel's interval counts from that begin, and the channel
-- releases its next job after it. An interval that is too short for the real begin would let two
-- jobs begin within the release interval; so measure it from a moment after the begin.
--
-- Notifies if the channel could have released before now: workers may have looked in vain.
-- 'cancelled': it was marked, and asked to stop.
create or replace function {schema}.mark_begun(
  ids bigint[], attempts integer[], tokens bigint[] default null, begun_ago interval[] default null
) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  changed bigint[];
  changed_attempts integer[];
  changed_tokens bigint[];
  cancelled bigint[];
  begin_of record;
  was_due boolean;
begin
  perform {schema}.refuse_uneven(
    'ids attempts tokens begun_ago', coalesce(cardinality(mark_begun.ids), 0),
    coalesce(cardinality(mark_begun.attempts), 0), cardinality(mark_begun.tokens),
    cardinality(mark_begun.begun_ago)
  );
  with asked as materialized (
    select a.id, a.attempt, a.token, a.ago
    from unnest(mark_begun.ids, mark_begun.attempts, mark_begun.tokens, mark_begun.begun_ago)
      as a (id, attempt, token, ago)
    order by a.id
  ),
  marked as (
    update {schema}.jobs as j
    set is_begun = true, is_begin_awaited = j.is_begin_awaited and asked.ago is null
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning j.id, j.attempt, j.token, j.is_cancelled
  )
  select
    array_agg(id), array_agg(attempt), array_agg(token), array_agg(id) filter (where is_cancelled)
  from marked into changed, changed_attempts, changed_tokens, cancelled;

  -- Also if it is not running any more: a handler may end before its begin is reported. In the
  -- order of names, so that two sessions never deadlock.
  for begin_of in
    select j.channel, min(a.ago) as ago
    from unnest(mark_begun.ids, mark_begun.begun_ago) as a (id, ago)
    join {schema}.jobs as j on j.id = a.id
    where a.ago is not null
    group by j.channel
    order by j.channel
  loop
    select c.next_release_at <= clock_timestamp() into was_due
    from {schema}.channels as c
    where c.name = begin_of.channel
    for update;
    continue when not found;
    -- Its own interval, or that of its family.
    update {schema}.channels as c
    set next_release_at = greatest(
      c.next_release_at, clock_timestamp() - begin_of.ago + p.release_interval
    )
    from {schema}.channel_policies() as p
    where c.name = begin_of.channel and p.name = c.name collate "C"
      and p.release_interval is not null;
    continue when not found;
    if was_due then
      perform pg_notify(concat({channel}, '_queue'), '');
    end if;
  end loop;

  return query
  select case
      when told.verdict = 'done' and told.id = any(cancelled) then 'cancelled'
      else told.verdict
    end
  from rows from (
    unnest(mark_begun.ids),
    {schema}.verdicts(
      mark_begun.ids, mark_begun.attempts, mark_begun.tokens,
      changed, changed_attempts, changed_tokens
    )
  ) with ordinality as told (id, verdict, number)
  order by told.number;
end;
$$;
