select {schema}.set_upkeep(%(name)s, %(keep_dead_for)s, %(ageing)s)
