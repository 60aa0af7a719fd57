-- The positions above a floor of the messages with these ids, in order. An appender calls it after
-- a COPY, which returns nothing, if others have drawn positions at the same time.
--
-- SECURITY DEFINER: an appender needs no privilege to read. It learns only the positions of
-- messages whose ids it knows.
--
-- The server hashes the ids only if it knows them when it plans. With a generic plan it compares
-- every row with every id, which takes a second for 20,000 of each.
create or replace function {schema}.appended_since(floor {schema}.position, ids uuid[])
returns setof {schema}.position
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan as $$
begin
  return query
  select m.transaction_id, m."position"
  from {schema}.messages as m
  where (m.transaction_id, m."position")
      > ((appended_since.floor).transaction_id, (appended_since.floor).position)
    and m.transaction_id >= (appended_since.floor).transaction_id
    and m.id = any(appended_since.ids)
  order by m.transaction_id, m."position";
end;
$$;
