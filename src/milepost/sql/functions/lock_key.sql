-- Wait for the transactions that have appended with a condition on this key, and let later ones wait
-- for this transaction. Its end releases the lock, after its messages are visible.
--
-- The high half of the lock's key is the sequence of the log, so that no lock of another purpose has
-- the same: floors have the table there (append_order/before_append.sql), and count for the horizon.
-- The low half is a hash: two keys with the same hash wait for each other, which is harmless.
create or replace function {schema}.lock_key(key text) returns void
language sql volatile
begin atomic
  select case
    when not pg_try_advisory_xact_lock(place.lock)
    then {schema}.await_lock(place.lock, 'the condition on key ' || quote_literal(lock_key.key))
  end
  from (
    select ('{schema}.messages_position_seq'::regclass::bigint << 32)
      | (hashtext(lock_key.key) & 4294967295)
  ) as place (lock);
end;
