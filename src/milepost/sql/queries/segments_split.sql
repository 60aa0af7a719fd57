select {schema}.split_segment(%(processor)s, %(version)s, %(segment)s, %(epoch)s)
