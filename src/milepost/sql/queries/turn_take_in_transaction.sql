-- The same until the end of the transaction. In its own transaction: whether the turn is free.
select pg_try_advisory_xact_lock(turn.high, turn.low) or {schema}.is_held_by_strangers(turn.high, turn.low)
from (
  select (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
  from hashtextextended(
    %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
  ) as hashed
) as turn (high, low)
