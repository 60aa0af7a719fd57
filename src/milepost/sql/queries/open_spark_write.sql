select {schema}.open_spark_write(%(query_id)s::uuid, %(is_stream)s) as staging
