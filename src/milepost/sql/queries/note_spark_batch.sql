select {schema}.note_spark_batch(%(pipeline)s, %(version)s, %(run)s, %(batch)s)
