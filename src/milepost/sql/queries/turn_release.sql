-- Another instance may have the turn from now on.
select pg_advisory_unlock(
  (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
)
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
