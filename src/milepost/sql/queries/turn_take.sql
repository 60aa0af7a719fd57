-- Whether this session gets the turn now; it keeps it until it ends. The key is a 64-bit hash in
-- two numbers, a key space that the log does not use. With it, the lock that says for whom.
select turn.is_taken, case when turn.is_taken then
  pg_try_advisory_lock_shared({schema}.owner_key(%(owner)s))
end
from (
  select pg_try_advisory_lock((hashed >> 32)::integer, (hashed << 32 >> 32)::integer) as is_taken
  from hashtextextended(
    %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
  ) as hashed
  offset 0
) as turn
