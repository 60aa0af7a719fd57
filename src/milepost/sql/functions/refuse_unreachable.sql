-- True, or an error if a consumer cannot start after this position, because messages were removed and
-- are not in the archive. Unlike refuse_gone, which is about the table alone.
create or replace function {schema}.refuse_unreachable(after {schema}.position) returns boolean
language plpgsql stable as $$
declare
  removed {schema}.position;
begin
  select removed_transaction_id, removed_position into removed from {schema}.log;
  return after >= removed or {schema}.is_archived(after, removed) or {schema}.refuse_gone(after);
end;
$$;
