select {schema}.abandon_processor(%(processor)s, %(version)s)
