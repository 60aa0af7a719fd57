-- Let a key flow again, if none of its letters is left. Answers whether it does.
--
-- FOR UPDATE, and only then the look for letters: a batch that found the key parked holds the row
-- FOR KEY SHARE until its letters are there to be seen. SKIP LOCKED: it is asked again later, and
-- nobody waits for another's handler meanwhile.
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
