-- Make a log whose rows came without their sequence (logical replication, a load of the data
-- alone) safe to append to and to read: draw above every message that is there, and above every
-- position that a reader may have reached elsewhere: nobody appends 2^32 of them after the newest
-- message that came along. Positions and checkpoints keep their values.
-- Messages whose transaction_id somebody named have no place in this order, and readers may have
-- passed wherever they would go: they get the next positions, in the order they had.
-- Repairs exactly what refuse_foreign_rows refuses. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  log_sequence constant regclass := '{schema}.messages_position_seq';
  newest bigint;
  misplaced bigint;
  done text[] := '{}';
begin
  -- Nobody appends meanwhile, so that no draw falls between reading and setting.
  lock table {schema}.messages in share row exclusive mode;
  select coalesce(max("position"), 0) into newest from {schema}.messages;
  if coalesce(pg_sequence_last_value(log_sequence), 0) < newest then
    perform setval(log_sequence, newest + (1::bigint << 32));
    done := array[format('the next position is %s', newest + (1::bigint << 32) + 1)];
  end if;
  with named as materialized (
    select transaction_id, "position" from {schema}.messages where transaction_id <> 0
    order by transaction_id, "position"
  ), moved as (
    update {schema}.messages as m
    set transaction_id = 0, "position" = default
    from named
    where (m.transaction_id, m."position") = (named.transaction_id, named."position")
    returning 1
  )
  select count(*) into misplaced from moved;
  if misplaced > 0 then
    done := done || format('%s messages with a transaction_id of their own are the newest now', misplaced);
  end if;
  return coalesce(
    nullif(array_to_string(done, '; '), ''), 'nothing: the sequence is where it should be'
  );
end;
$$;
