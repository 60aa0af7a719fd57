update {schema}.dead_letters
set retry_requested_at = clock_timestamp()
where id = any(%(ids)s::bigint[])
