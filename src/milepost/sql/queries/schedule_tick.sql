select {schema}.tick_schedule(%(name)s, %(due_at)s, %(next_at)s)
