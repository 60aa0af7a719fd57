-- Another instance may have the turn from now on.
select
  pg_advisory_unlock((hashed >> 32)::integer, (hashed << 32 >> 32)::integer),
  pg_advisory_unlock_shared({schema}.owner_key(%(owner)s))
from hashtextextended(
  %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
) as hashed
