-- Wait for the transactions that have appended with a condition on this key, and let later ones wait
-- for this transaction. Its end releases the lock, after its messages are visible.
--
-- The high half of the lock's key is the sequence of the log, so that no lock of another purpose has
-- the same: floors have the table there (append_order/before_append.sql), and count for the horizon.
-- The low half is a hash: two keys with the same hash wait for each other, which is harmless.
--
-- A bound body, which is resolved when it is created and becomes part of the caller's expression.
create or replace function {schema}.lock_key(key text) returns void
language sql volatile
return pg_advisory_xact_lock(
  ('{schema}.messages_position_seq'::regclass::bigint << 32) | (hashtext(key) & 4294967295)
);
