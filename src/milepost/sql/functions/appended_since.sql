-- The positions above a floor of the messages with these ids, in order: what an appender asks who has
-- copied many, since COPY answers with nothing and the rows of others were drawn meanwhile.
--
-- SECURITY DEFINER: an appender needs no right to read. It learns nothing but where the messages are
-- whose ids it knows.
--
-- The server hashes the ids only if it knows them when it plans. With a plan for any ids it compares
-- every row with every id, 20,000 of each in a second.
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
