select {schema}.merge_upsert(
  %(staging)s, %(target)s::regclass, %(key_columns)s, %(key_types)s, %(set_columns)s, %(set_types)s,
  %(add_columns)s, %(add_types)s, %(attempts)s
)
