update {schema}.dead_letters
set error = %(error)s,
  traceback = %(traceback)s,
  attempts = attempts + 1,
  failed_at = clock_timestamp(),
  retry_requested_at = null
where id = %(id)s
