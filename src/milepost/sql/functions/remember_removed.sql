-- Note the messages of a range that is about to be removed, for appends with a condition or with
-- `once`: for 7 days they count as if they were still in the log. Only in a log with one of the
-- optional indexes: without them, nobody asks. What was noted before that time is forgotten.
create or replace function {schema}.remember_removed(
  after {schema}.position, last {schema}.position
) returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_sort = off
as $$
#variable_conflict use_column
begin
  delete from {schema}.removed_messages as r
  where r.removed_at < clock_timestamp() - interval '7 days';
  if not ({schema}.has_index('messages_key') or {schema}.has_index('messages_id')) then
    return;
  end if;
  insert into {schema}.removed_messages (transaction_id, "position", id, key, type)
  select m.transaction_id, m."position", m.id, m.key, m.type
  from {schema}.messages as m
  where (m.transaction_id, m."position")
      > ((remember_removed.after).transaction_id, (remember_removed.after).position)
    and (m.transaction_id, m."position")
      <= ((remember_removed.last).transaction_id, (remember_removed.last).position)
  on conflict do nothing;
end;
$$;
