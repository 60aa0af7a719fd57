select {schema}.activate_pipeline(%(pipeline)s, %(version)s)
