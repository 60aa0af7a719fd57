select {schema}.merge_append(
  %(staging)s, %(target)s::regclass, %(columns)s, %(types)s, %(attempts)s
)
