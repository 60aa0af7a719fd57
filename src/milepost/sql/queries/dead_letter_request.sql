select {schema}.request_retry(%(ids)s::bigint[])
