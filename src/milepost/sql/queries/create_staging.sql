select {schema}.create_staging(%(staging)s, %(columns)s, %(types)s)
