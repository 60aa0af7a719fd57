-- The same until the end of the transaction. In its own transaction: whether the turn is free.
select pg_try_advisory_xact_lock(
  (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
)
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
