-- Make a log whose rows came without their sequence (logical replication, a load of the data
-- alone) safe to append to and to read: draw above every message that is there, and above every
-- horizon that a reader may have reached, which counts draws that were rolled back too. Those are
-- not in the rows, but nobody rolls back 2^32 of them after the newest message.
-- Positions and checkpoints keep their values. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  log_sequence constant regclass := '{schema}.messages_position_seq';
  newest bigint;
begin
  -- Nobody appends meanwhile, so that no draw falls between reading and setting.
  lock table {schema}.messages in share row exclusive mode;
  select coalesce(max("position"), 0) into newest from {schema}.messages;
  if coalesce(pg_sequence_last_value(log_sequence), 0) >= newest then
    return 'nothing: the sequence is where it should be';
  end if;
  perform setval(log_sequence, newest + (1::bigint << 32));
  return format('the next position is %s', newest + (1::bigint << 32) + 1);
end;
$$;
