select {schema}.drop_dead_letters(%(ids)s::bigint[])
