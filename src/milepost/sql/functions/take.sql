-- Take up to `max_count` jobs for `lock_for`, over the channels that `pattern` names (a name, or a
-- prefix and a star), in rotation: beginning with the channel that follows `after` by name. Pass
-- the last channel of the previous answer. Every job comes with the attempt that whoever changes it
-- must name, and with a token to be named too where the take is not durable: see take_from(). An
-- empty answer may be wrong under contention: ask again later. Call it in a transaction of its own:
-- until it is committed, nobody else takes from the limited channels among them. `max_channels`: each
-- of them gives an equal share, so that few are cheaper, and many give more where each has little.
--
-- The limits of a channel hold over the whole fleet because whoever releases its jobs holds the
-- lock on its row, and counts what runs with a snapshot that is younger than the lock. SKIP LOCKED:
-- somebody else is taking from that channel just now. A channel without limits needs no lock; there
-- SKIP LOCKED on the jobs keeps two takers apart.
create or replace function {schema}.take(
  max_count integer,
  lock_for interval default '30 seconds',
  pattern text default '*',
  after text default null,
  is_durable boolean default true,
  max_channels integer default 100
) returns setof {schema}.jobs
language plpgsql volatile as $$
#variable_conflict use_column
declare
  is_prefix constant boolean := right(take.pattern, 1) = '*';
  names text[] := array[take.pattern];
  priorities smallint[];
  run_ats timestamptz[];
  ids bigint[];
  start text := take.after;
  done text;  -- assigned, not performed: that would be a statement more
begin
  done := {schema}.queue_duties();
  -- Others may be taking from all the channels that were found: then the next ones, a few times.
  for turn in 1..5 loop
    if is_prefix then
      select
        array_agg(room.channel), array_agg(room.head_priority), array_agg(room.head_run_at),
        array_agg(room.head_id)
      into names, priorities, run_ats, ids
      from {schema}.channels_with_room(
        left(take.pattern, -1), start, least(greatest(take.max_count, 1), take.max_channels)
      ) as room;
      exit when names is null;
    end if;
    return query
    select *
    from {schema}.take_from(
      names, take.max_count, take.lock_for, priorities, run_ats, ids, take.is_durable
    );
    exit when found or not is_prefix;
    start := names[cardinality(names)];
  end loop;
end;
$$;
