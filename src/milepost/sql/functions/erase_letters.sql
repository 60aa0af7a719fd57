-- Drop dead letters of messages with a key, of all processors, at most `max_count`. Returns how many,
-- and how many there are still, when none is dropped any more: those that a processor is handling now.
-- Their transactions delete them, or leave them for the next call.
--
-- SKIP LOCKED: nothing waits for a handler. The parked keys come first, as in drop_dead_letters, which
-- unparks those that have no letters left.
create or replace function {schema}.erase_letters(
  key text, max_count integer, out number integer, out remaining bigint
)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  parked bigint[];
  ids bigint[];
begin
  select coalesce(array_agg(free.id), '{}')
  into parked
  from (
    select k.id
    from {schema}.parked_keys as k
    where k.key = erase_letters.key
    order by k.digest
    for update skip locked
  ) as free;
  select coalesce(array_agg(free.id), '{}')
  into ids
  from (
    select d.id
    from {schema}.dead_letters as d
    where d.key = erase_letters.key and (d.parked_id is null or d.parked_id = any(parked))
    order by d.id
    limit erase_letters.max_count
    for update skip locked
  ) as free;
  number := {schema}.drop_dead_letters(ids);
  select count(*) into remaining from {schema}.dead_letters as d where d.key = erase_letters.key;
end;
$$;
