-- True, or an error if this position is above every one that the log has given: it is of another log,
-- or of another server, and whoever waits there waits for ever. A gap is not: what was drawn and rolled
-- back counts as given. A standby may not have replayed it yet, so nothing is refused there.
--
-- horizon() comes first where something is refused: a log that was restored says so. SECURITY DEFINER:
-- a reader needs no privilege on the sequence.
create or replace function {schema}.refuse_beyond(after {schema}.position) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  horizon {schema}.position;
begin
  if pg_is_in_recovery() or refuse_beyond.after <= {schema}.newest_given() then
    return true;
  end if;
  horizon := {schema}.horizon();
  raise exception 'position %:% is above everything that this log has given; its horizon is %:%',
    (after).transaction_id, (after).position, (horizon).transaction_id, (horizon).position
    using errcode = 'MP012',
    detail = json_build_object(
      'position', (after).transaction_id || ':' || (after).position,
      'horizon', (horizon).transaction_id || ':' || (horizon).position
    )::text,
    hint = 'It is of another log, or of a newer copy of this one. Connect to the right server, or start from a position of this log.';
end;
$$;
