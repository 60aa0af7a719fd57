select {schema}.show_target(%(target_schema)s, %(view_name)s, %(table_name)s)
