select {schema}.create_target(
  %(target_schema)s, %(table_name)s, %(columns)s, %(types)s, %(key_columns)s
)
