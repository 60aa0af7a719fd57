select {schema}.show_rejected(
  %(pipeline)s, %(version)s, %(target_schema)s, %(view_name)s, %(table_name)s
)
