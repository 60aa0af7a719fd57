-- True, or an error if messages after this position were removed from the table (remove_messages.sql).
-- Stable, so that within a statement it uses the same snapshot as the rows that are read: a removal
-- that the statement sees is refused, and one that it does not see does not affect its rows.
create or replace function {schema}.refuse_gone(after {schema}.position) returns boolean
language plpgsql stable as $$
declare
  removed {schema}.position;
  facts text;
begin
  select removed_transaction_id, removed_position into removed from {schema}.log;
  if after < removed then
    facts := json_build_object(
      'position', (after).transaction_id || ':' || (after).position,
      'continue_from', (removed).transaction_id || ':' || (removed).position
    );
  end if;
  if after < removed and {schema}.is_archived(after, removed) then
    raise exception 'messages after position %:% are only in the archive: the table begins after %:%',
      (after).transaction_id, (after).position, (removed).transaction_id, (removed).position
      using errcode = 'MP041',
      detail = facts,
      hint = format(
        'SQL reads the table alone. Read them with: milepost read --from %s:%s', (after).transaction_id, (after).position
      );
  elsif after < removed then
    raise exception 'messages after position %:% were removed: the log begins after %:%',
      (after).transaction_id, (after).position, (removed).transaction_id, (removed).position
      using errcode = 'MP041',
      detail = facts,
      hint = format(
        'Start from %s:%s to read what is left.', (removed).transaction_id, (removed).position
      );
  end if;
  return true;
end;
$$;
