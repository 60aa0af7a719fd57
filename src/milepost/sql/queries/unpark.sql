select {schema}.unpark(%(parked_id)s)
