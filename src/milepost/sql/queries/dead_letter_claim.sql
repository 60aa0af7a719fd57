-- The guard of a retry: the session that deletes the letter handles it, in the same transaction.
with claimed as (
  delete from {schema}.dead_letters
  where id = %(id)s and retry_requested_at is not null
  returning id
)
select 1, pg_current_xact_id_if_assigned()::text from claimed
