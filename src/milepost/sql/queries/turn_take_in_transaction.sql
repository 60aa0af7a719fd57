-- The same until the end of the transaction. In its own transaction: whether the turn is free.
select turn.is_taken, case when turn.is_taken then
  pg_try_advisory_xact_lock_shared({schema}.owner_key(%(owner)s::text))
end
from (
  select
    pg_try_advisory_xact_lock(key.high, key.low)
      or {schema}.is_held_by_strangers(key.high, key.low) as is_taken
  from (
    select (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
    from hashtextextended(
      %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
    ) as hashed
  ) as key (high, low)
  offset 0
) as turn
