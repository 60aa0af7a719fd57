-- Make a log safe to append to and to read if its rows came without their sequence (logical
-- replication, a load of the data alone), if it was restored or copied, or if its server was
-- promoted: new positions are drawn above every existing message, archived and removed ones
-- too, and above every position that a reader may have reached elsewhere: nobody appends 2^32
-- messages after the newest one that was copied. Positions and checkpoints keep their values.
-- Messages with a transaction_id that was set by a user have no place in this order, and readers may
-- have passed any place they could get: they get the next positions, in the order they had. Repairs
-- everything that refuse_moved and refuse_foreign_rows refuse. Returns what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  log_sequence constant regclass := '{schema}.messages_position_seq';
  newest bigint;
  kept {schema}.position;
  misplaced record;
  moved bigint := 0;
  done text[] := '{}';
begin
  -- Blocks appenders, so that no position is drawn between reading and setting the sequence.
  lock table {schema}.messages in share row exclusive mode;
  select greatest(max("position"), ({schema}.history_end()).position) into newest
  from {schema}.messages where transaction_id = 0;
  if coalesce(pg_sequence_last_value(log_sequence), 0) < newest
    or {schema}.moved_from() is not null
    or {schema}.is_unplaced()
  then
    newest := greatest(newest, pg_sequence_last_value(log_sequence)) + (1::bigint << 32);
    perform setval(log_sequence, newest);
    perform {schema}.set_place();
    kept := {schema}.note_lost(row(0, newest)::{schema}.position);
    done := array[format(
      'the next position is %s; if messages after %s:%s were seen anywhere, they are lost',
      newest + 1, (kept).transaction_id, (kept).position
    )];
  end if;
  for misplaced in
    select transaction_id, "position" from {schema}.messages
    where transaction_id < 0 or transaction_id > 0
    order by transaction_id, "position"
  loop
    update {schema}.messages
    set transaction_id = 0, "position" = default
    where (transaction_id, "position") = (misplaced.transaction_id, misplaced."position");
    moved := moved + 1;
  end loop;
  if moved > 0 then
    done := done || format('%s messages with a user-defined transaction_id are the newest now', moved);
  end if;
  return coalesce(
    nullif(array_to_string(done, '; '), ''), 'nothing: the sequence is correct'
  );
end;
$$;
