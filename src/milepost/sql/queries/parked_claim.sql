-- The guard of the retry of a parked letter: the session that deletes it handles it, in the same
-- transaction. The lock on the key prevents others from retrying the next letter before this one is
-- decided, and lets batches add letters in the meantime. SKIP LOCKED: another session is handling
-- the key.
with held as materialized (
  select id
  from {schema}.parked_keys
  where id = %(parked_id)s and retry_requested_at is not null
  for no key update skip locked
),
claimed as (
  delete from {schema}.dead_letters as d
  using held
  where d.id = %(id)s
    and d.parked_id = held.id
    and not exists (
      select from {schema}.dead_letters as earlier
      where earlier.parked_id = d.parked_id
        and (earlier.transaction_id, earlier."position") < (d.transaction_id, d."position")
    )
  returning d.id
)
select 1, pg_current_xact_id_if_assigned()::text from claimed
