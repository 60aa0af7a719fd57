-- Take up to `max_count` jobs for `lock_for` from the channels that match `pattern` (a name, or a
-- prefix and a star), in rotation: starting with the channel after `after` in the order of names.
-- Pass the last channel of the previous result. Every job has an attempt, which must be named to
-- change the job, and, if the take is not durable, also a token: see take_from(), also for
-- `is_ahead`. An empty result may be wrong under contention: call it again later. Call it in its own
-- transaction: until the commit, no other session takes from the limited channels among them.
-- `max_channels`: each of them gives an equal share, so fewer channels are cheaper, and more channels
-- give more jobs if each has few.
--
-- The limits of a channel hold across all workers because a session that releases its jobs holds
-- the lock on its row, and counts the running jobs with a snapshot that is newer than the lock.
-- SKIP LOCKED: another session is taking from that channel now. A channel without limits needs no
-- lock; there SKIP LOCKED on the jobs separates two takers.
create or replace function {schema}.take(
  max_count integer,
  lock_for interval default '30 seconds',
  pattern text default '*',
  after text default null,
  is_durable boolean default true,
  max_channels integer default 100,
  is_ahead boolean default false
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
  done text;  -- assigned, because PERFORM would be one more statement
begin
  if (
    take.max_count >= 0 and take.lock_for > interval '0' and take.pattern <> ''
    and take.max_channels > 0
  ) is not true then
    perform {schema}.refuse_argument(checked.name, checked.value, checked.expected)
    from (
      values
        ('max_count', take.max_count::text, take.max_count >= 0, 'a whole number from 0 on'),
        ('lock_for', take.lock_for::text, take.lock_for > interval '0', 'more than 0'),
        ('pattern', quote_literal(take.pattern), take.pattern <> '', 'a channel, or as tenant.*'),
        ('max_channels', take.max_channels::text, take.max_channels > 0, 'a whole number from 1 on')
    ) as checked (name, value, is_right, expected)
    where checked.is_right is not true;
  end if;
  done := {schema}.queue_duties();
  -- Others may be taking from all channels that were found: then try the next ones, a few times.
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
      names, take.max_count, take.lock_for, priorities, run_ats, ids, take.is_durable, take.is_ahead
    ) as taken
    order by
      -- The rotation comes back to the first names behind the last ones.
      taken.channel < names[1] collate "C", taken.channel, taken.priority, taken.run_at, taken.id;
    exit when found or not is_prefix;
    start := names[cardinality(names)];
  end loop;
end;
$$;
