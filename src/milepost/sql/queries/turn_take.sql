-- Whether it is this session's turn now, and stays so until it ends. The key is a hash of 64 bits in
-- two numbers, a space that the log does not use.
select pg_try_advisory_lock(
  (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
)
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
