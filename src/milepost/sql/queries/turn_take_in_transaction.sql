-- The same until the transaction ends. In a transaction of its own: whether nobody has the turn.
select pg_try_advisory_xact_lock(
  (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
)
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
