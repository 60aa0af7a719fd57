-- Delete dead letters. A parked key without any letters left is not parked any more. Returns how
-- many were deleted.
--
-- The keys are locked first, in one order: this waits for sessions that add letters to one of them
-- or retry one.
create or replace function {schema}.drop_dead_letters(ids bigint[]) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  keys bigint[];
  dropped integer;
begin
  select coalesce(array_agg(distinct d.parked_id) filter (where d.parked_id is not null), '{}')
  into keys
  from {schema}.dead_letters as d
  where d.id = any(drop_dead_letters.ids);
  perform from {schema}.parked_keys as k where k.id = any(keys) order by k.digest for update;
  delete from {schema}.dead_letters as d where d.id = any(drop_dead_letters.ids);
  get diagnostics dropped = row_count;
  delete from {schema}.parked_keys as k
  where k.id = any(keys)
    and not exists (select from {schema}.dead_letters as d where d.parked_id = k.id);
  return dropped;
end;
$$;
