select {schema}.close_spark_write(%(query_id)s::uuid)
