-- Whether any key of a processor is parked. Volatile, so that it uses its own snapshot: called
-- after a checkpoint was locked, it sees the keys that the previous lock holder has parked.
create or replace function {schema}.has_parked(processor text, version integer) returns boolean
language plpgsql volatile as $$
begin
  return exists (
    select from {schema}.parked_keys as k
    where k.processor = has_parked.processor and k.version = has_parked.version
  );
end;
$$;
