-- Unpark a key, if it has no letters left. Returns whether it was unparked.
--
-- FOR UPDATE before the check for letters: a batch that found the key parked holds the row FOR KEY
-- SHARE until its letters are visible. SKIP LOCKED: it is tried again later, and nothing waits for
-- the handler of another session.
create or replace function {schema}.unpark(parked_id bigint) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
begin
  perform from {schema}.parked_keys as k where k.id = unpark.parked_id for update skip locked;
  if not found then
    return not exists (select from {schema}.parked_keys as k where k.id = unpark.parked_id);
  end if;
  if exists (select from {schema}.dead_letters as d where d.parked_id = unpark.parked_id) then
    return false;
  end if;
  delete from {schema}.parked_keys as k where k.id = unpark.parked_id;
  return true;
end;
$$;
