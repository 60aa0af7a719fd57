-- A horizon is only safe if the rows are read with a snapshot taken after it: above READ COMMITTED
-- the snapshot is older, and a message committed in between would be skipped.
create or replace function {schema}.refuse_unsafe_read() returns void
language plpgsql stable as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'the log cannot be read at isolation level %',
      current_setting('transaction_isolation')
      using errcode = 'MP001',
      hint = 'Read in READ COMMITTED: above it, messages that commit in the meantime would be skipped.';
  end if;
end;
$$;
