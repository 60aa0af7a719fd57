select {schema}.refuse_internal(%(processor)s)
