select {schema}.unset_channel(%(name)s)
