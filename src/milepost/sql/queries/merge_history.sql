select {schema}.merge_history(
  %(staging)s, %(target)s::regclass, %(key_columns)s, %(key_types)s, %(value_columns)s,
  %(value_types)s, %(at_column)s, %(at_type)s, %(delete_column)s, %(attempts)s
)
