select {schema}.merge_upsert_or_delete(
  %(staging)s, %(target)s::regclass, %(key_columns)s, %(key_types)s, %(set_columns)s, %(set_types)s,
  %(delete_column)s, %(attempts)s
)
