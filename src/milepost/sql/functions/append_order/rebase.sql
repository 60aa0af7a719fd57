-- Make a log whose rows came without their sequence (logical replication, a load of the data
-- alone) safe to append to and to read: draw above every message that is there. Positions and
-- checkpoints keep their values. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  log_sequence constant regclass := '{schema}.messages_position_seq';
  newest bigint;
  drawn bigint;
begin
  -- Nobody appends meanwhile, so that no draw falls between reading and setting.
  lock table {schema}.messages in share row exclusive mode;
  select coalesce(max("position"), 0) into newest from {schema}.messages;
  drawn := coalesce(pg_sequence_last_value(log_sequence), 0);
  if drawn < newest then
    perform setval(log_sequence, newest);
  end if;
  update {schema}.log
  set system_identifier = control.system_identifier
  from pg_control_system() as control;
  return format('the next position is %s', greatest(drawn, newest) + 1);
end;
$$;
