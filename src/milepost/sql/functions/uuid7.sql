-- A time-ordered UUID (version 7). PostgreSQL has its own from version 18 on; this one is the same
-- on every supported version, so that a log behaves the same wherever it is restored.
create or replace function {schema}.uuid7() returns uuid
language sql volatile parallel safe
return encode(
  set_bit(
    set_bit(
      overlay(
        uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ),
      52, 1
    ),
    53, 1
  ),
  'hex'
)::uuid;
