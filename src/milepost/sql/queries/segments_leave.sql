select {schema}.leave_segments(%(processor)s, %(version)s, %(owner)s)
