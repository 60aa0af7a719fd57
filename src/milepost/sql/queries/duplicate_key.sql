select {schema}.duplicate_key(%(staging)s, %(key_columns)s, %(attempts)s)
