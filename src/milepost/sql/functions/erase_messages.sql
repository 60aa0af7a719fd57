-- Erase the messages of a key among the next `max_count` messages after a position. Returns how many
-- were erased, and the last position that was examined: null if there was none.
--
-- A gap in the log is nothing that a reader notices, so the marker of removed messages stays. The
-- highest message may be among the erased ones: its position was visible, and is not given again.
create or replace function {schema}.erase_messages(
  key text, after {schema}.position, max_count integer,
  out number bigint, out transaction_id bigint, out "position" bigint
)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set max_parallel_workers_per_gather = 0
as $$
#variable_conflict use_column
begin
  number := 0;
  -- Neither may their key stay among what was removed lately.
  delete from {schema}.removed_messages as r where r.key = erase_messages.key;
  select chunk.transaction_id, chunk."position"
  into transaction_id, "position"
  from (
    select m.transaction_id, m."position"
    from {schema}.messages as m
    where (m.transaction_id, m."position")
      > ((erase_messages.after).transaction_id, (erase_messages.after).position)
    order by m.transaction_id, m."position"
    limit erase_messages.max_count
  ) as chunk
  order by chunk.transaction_id desc, chunk."position" desc
  limit 1;
  if found then
    delete from {schema}.messages as m
    where (m.transaction_id, m."position")
        > ((erase_messages.after).transaction_id, (erase_messages.after).position)
      and (m.transaction_id, m."position")
        <= (erase_messages.transaction_id, erase_messages."position")
      and m.key = erase_messages.key;
    get diagnostics number = row_count;
  end if;
end;
$$;
