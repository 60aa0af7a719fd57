-- One instance at a time drains a key. A lock of the session's: it goes with it, holds no horizon
-- back, and so may be held while a handler runs. Two numbers, a space that the log does not use.
select pg_try_advisory_lock(
  '{schema}.parked_keys'::regclass::oid::integer, hashint8(%(parked_id)s)
)
