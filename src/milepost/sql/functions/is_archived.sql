-- Whether all messages after this position that were removed are in the archive. Its files are one
-- chain of ranges, so only its two ends matter. In plpgsql, which is not inlined: a role that was
-- granted its privileges before there was an archive needs none on it until messages are removed.
create or replace function {schema}.is_archived(after {schema}.position, removed {schema}.position)
returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from {schema}.archive as a
    where a.is_first and (a.after_transaction_id, a.after_position)
      <= ((is_archived.after).transaction_id, (is_archived.after).position)
  ) and exists (
    select from {schema}.archive as a
    where (a.last_transaction_id, a.last_position)
      >= ((is_archived.removed).transaction_id, (is_archived.removed).position)
  );
end;
$$;
