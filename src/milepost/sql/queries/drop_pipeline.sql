select {schema}.drop_pipeline(%(pipeline)s, %(version)s, %(staging)s)
