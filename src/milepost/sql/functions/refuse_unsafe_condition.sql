-- A condition is exact only if it is checked with a snapshot that is taken after the lock: above READ
-- COMMITTED the snapshot is older, and a message that was committed in between would not count.
create or replace function {schema}.refuse_unsafe_condition() returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'the condition of an append cannot be checked at isolation level %',
      current_setting('transaction_isolation')
      using errcode = 'MP001',
      hint = 'Nothing was written. Append in READ COMMITTED: above it, messages that commit in the meantime would not count.';
  end if;
end;
$$;
