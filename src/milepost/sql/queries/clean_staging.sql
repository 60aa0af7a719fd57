select {schema}.clean_staging(%(staging)s)
