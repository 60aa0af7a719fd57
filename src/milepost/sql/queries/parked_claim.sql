-- The guard of the retry of parked letters, the first ones of their key: the session that deletes them
-- handles them, in the same transaction. All or none, or the caller rolls back. The lock on the key
-- prevents others from retrying the next letter before these are decided, and lets batches add
-- letters in the meantime. SKIP LOCKED: another session is handling the key.
with held as materialized (
  select id
  from {schema}.parked_keys
  where id = %(parked_id)s
    and retry_requested_at is not null
    and cardinality(%(ids)s::bigint[]) = (
      select count(*) from {schema}.dead_letters as d
      where d.parked_id = %(parked_id)s
        and (d.transaction_id, d."position") <= (%(transaction_id)s, %(position)s)
    )
  for no key update skip locked
),
claimed as (
  delete from {schema}.dead_letters as d
  using held
  where d.id = any(%(ids)s::bigint[]) and d.parked_id = held.id
  returning d.id
)
select 1, pg_current_xact_id_if_assigned()::text
from claimed
having count(*) = cardinality(%(ids)s::bigint[])
