select pg_advisory_unlock(
  '{schema}.parked_keys'::regclass::oid::integer, hashint8(%(parked_id)s)
)
