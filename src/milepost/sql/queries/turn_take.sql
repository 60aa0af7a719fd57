-- Whether this session gets the turn now; it keeps it until it ends. The key is a 64-bit hash in
-- two numbers, a key space that the log does not use. With it, the lock that says for whom.
-- If a session has it whose role may not process, the instance works without it: the checkpoint, which
-- only one of several can move, is the fence.
select turn.is_taken, case when turn.is_taken then
  pg_try_advisory_lock_shared({schema}.owner_key(%(owner)s))
end
from (
  select
    pg_try_advisory_lock(key.high, key.low) or {schema}.is_held_by_strangers(key.high, key.low)
      as is_taken
  from (
    select (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
    from hashtextextended(
      %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
    ) as hashed
  ) as key (high, low)
  offset 0
) as turn
