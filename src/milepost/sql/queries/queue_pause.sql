select {schema}.pause_channel(%(name)s, %(paused)s)
