select {schema}.note_spark_write(%(query_id)s::uuid, %(batch)s, %(rows)s, %(may_differ)s)
