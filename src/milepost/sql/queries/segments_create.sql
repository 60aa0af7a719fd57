select {schema}.create_segments(
  %(processor)s, %(version)s, %(number)s,
  row(%(transaction_id)s, %(position)s)::{schema}.position
)
