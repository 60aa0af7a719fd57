-- Record for rebase() that every position up to this one may have been given to a message that is
-- lost, except those that are in the log, in its archive, or in one of its checkpoints.
create or replace function {schema}.note_lost(up_to {schema}.position) returns {schema}.position
language plpgsql volatile as $$
declare
  kept {schema}.position;
begin
  select known.* into kept
  from (
    select newest.transaction_id, newest."position"
    from {schema}.last_message(note_lost.up_to) as newest
    union all
    select history.transaction_id, history."position" from {schema}.history_end() as history
    union all
    select transaction_id, "position" from {schema}.checkpoints
  ) as known
  where (known.transaction_id, known."position")
    <= ((note_lost.up_to).transaction_id, (note_lost.up_to).position)
  order by known.transaction_id desc, known."position" desc
  limit 1;
  insert into {schema}.lost_positions (
    after_transaction_id, after_position, up_to_transaction_id, up_to_position
  )
  values (
    (kept).transaction_id, (kept).position,
    (note_lost.up_to).transaction_id, (note_lost.up_to).position
  )
  on conflict (after_transaction_id, after_position) do update
  set up_to_transaction_id = excluded.up_to_transaction_id,
    up_to_position = excluded.up_to_position;
  return kept;
end;
$$;
