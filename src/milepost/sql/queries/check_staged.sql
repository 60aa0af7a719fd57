select {schema}.check_staged(%(staging)s, %(attempts)s, %(rows)s)
