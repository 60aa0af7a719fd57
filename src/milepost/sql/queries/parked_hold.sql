-- One instance at a time drains a key. A session-level lock: it ends with the session, does not
-- hold the horizon back, and so may be held while a handler runs. Two numbers, a key space that the
-- log does not use.
select pg_try_advisory_lock(
  '{schema}.parked_keys'::regclass::oid::integer, hashint8(%(parked_id)s)
)
