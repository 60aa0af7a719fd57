select {schema}.metrics(%(sections)s::text[], %(max_channels)s)
