-- True, or an error if this position was lost in a restore or a failover: a reader at this position
-- has seen messages that the log does not have, and would not learn of it by reading on.
create or replace function {schema}.refuse_lost(after {schema}.position) returns boolean
language plpgsql stable as $$
declare
  lost {schema}.lost_positions;
begin
  select * into lost
  from {schema}.lost_positions
  where (after_transaction_id, after_position) < ((after).transaction_id, (after).position)
    and (up_to_transaction_id, up_to_position) >= ((after).transaction_id, (after).position)
  limit 1;
  if found then
    raise exception 'position %:% was lost in a restore or a failover, with all messages after %:%',
      (after).transaction_id, (after).position, lost.after_transaction_id, lost.after_position
      using errcode = 'MP007',
      detail = json_build_object(
        'position', (after).transaction_id || ':' || (after).position,
        'continue_from', lost.after_transaction_id || ':' || lost.after_position
      )::text,
      hint = format(
        'Effects of the lost messages outside of the database still exist. Start from %s:%s to read what the log has.',
        lost.after_transaction_id, lost.after_position
      );
  end if;
  return true;
end;
$$;
