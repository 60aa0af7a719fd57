-- The stable 32-bit hash of a message key: the first four bytes of the SHA-256 of its UTF-8 form,
-- as an unsigned number. Python and Spark compute the same. The hash of a null key is 0, so that
-- messages without a key are in one fixed segment.
create or replace function {schema}.key_hash(key text) returns bigint
language sql immutable parallel safe
return case
  when key is null then 0
  else ('x' || encode(substring(sha256(convert_to(key, 'UTF8')) from 1 for 4), 'hex'))
    ::bit(32)::bigint
end;
