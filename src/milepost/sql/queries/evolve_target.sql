select {schema}.evolve_target(
  %(target_schema)s, %(table_name)s, %(view_name)s, %(added_columns)s, %(added_types)s,
  %(widened_columns)s, %(widened_types)s
)
