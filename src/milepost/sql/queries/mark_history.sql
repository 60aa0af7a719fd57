select {schema}.mark_history(%(target_schema)s, %(table_name)s)
