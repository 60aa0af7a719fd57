-- Take up to `max_count` jobs for `lock_for`, over the channels that `pattern` names (a name, or a
-- prefix and a star), in rotation: beginning with the channel that follows `after` by name. Pass
-- the last channel of the previous answer. Every job comes with the attempt that whoever changes it
-- must name. An empty answer may be wrong under contention: ask again later. Call it in a transaction
-- of its own: until it is committed, nobody else takes from the limited channels among them.
--
-- The limits of a channel hold over the whole fleet because whoever releases its jobs holds the
-- lock on its row, and counts what runs with a snapshot that is younger than the lock. SKIP LOCKED:
-- somebody else is taking from that channel just now. A channel without limits needs no lock; there
-- SKIP LOCKED on the jobs keeps two takers apart.
create or replace function {schema}.take(
  max_count integer,
  lock_for interval default '30 seconds',
  pattern text default '*',
  after text default null
) returns setof {schema}.jobs
language plpgsql volatile as $$
#variable_conflict use_column
declare
  names text[];
  priorities smallint[];
  run_ats timestamptz[];
  ids bigint[];
  start text := take.after;
begin
  perform {schema}.queue_duties();
  -- Others may be taking from all the channels that were found: then the next ones, a few times.
  for turn in 1..5 loop
    select
      array_agg(room.channel), array_agg(room.head_priority), array_agg(room.head_run_at),
      array_agg(room.head_id)
    into names, priorities, run_ats, ids
    from {schema}.channels_with_room(
      take.pattern, start, least(greatest(take.max_count, 1), 100)
    ) as room;
    exit when names is null;
    return query
    select *
    from {schema}.take_from(names, take.max_count, take.lock_for, priorities, run_ats, ids);
    exit when found or right(take.pattern, 1) <> '*';
    start := names[cardinality(names)];
  end loop;
end;
$$;
