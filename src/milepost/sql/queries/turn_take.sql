-- Whether this session gets the turn now; it keeps it until it ends. The key is a 64-bit hash in
-- two numbers, a key space that the log does not use.
select pg_try_advisory_lock(
  (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
)
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
