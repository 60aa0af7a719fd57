select {schema}.release_segment(%(processor)s, %(version)s, %(segment)s, %(epoch)s)
