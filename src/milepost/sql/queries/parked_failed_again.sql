-- It stays the first of its key, which waits for the next request.
with waiting as (
  update {schema}.parked_keys
  set retry_requested_at = null
  where id = %(parked_id)s
)
update {schema}.dead_letters
set error = %(error)s,
  traceback = %(traceback)s,
  attempts = attempts + 1,
  failed_at = clock_timestamp()
where id = %(id)s
