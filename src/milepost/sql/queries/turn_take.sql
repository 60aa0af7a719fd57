-- Whether this session gets the turn now; it keeps it until it ends. The key is a 64-bit hash in
-- two numbers, a key space that the log does not use.
-- If a session has it whose role may not process, the instance works without it: the checkpoint, which
-- only one of several can move, is the fence.
select pg_try_advisory_lock(turn.high, turn.low) or {schema}.is_held_by_strangers(turn.high, turn.low)
from (
  select (hashed >> 32)::integer, (hashed << 32 >> 32)::integer
  from hashtextextended(
    %(processor)s::text || ' ' || %(version)s::text, '{schema}.processors'::regclass::oid::bigint
  ) as hashed
) as turn (high, low)
