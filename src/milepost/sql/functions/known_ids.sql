-- The positions of those of these ids that the log has, in the table or among those that were removed
-- lately (remember_removed.sql).
--
-- SECURITY DEFINER: an appender needs no privilege to read. It learns only the positions of messages
-- whose ids it knows.
create or replace function {schema}.known_ids(ids uuid[])
returns table (id uuid, transaction_id bigint, "position" bigint, is_removed boolean)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  return query
  select m.id, m.transaction_id, m."position", false
  from {schema}.messages as m
  where m.id = any(known_ids.ids)
  union all
  select r.id, r.transaction_id, r."position", true
  from {schema}.removed_messages as r
  where r.id = any(known_ids.ids);
end;
$$;
