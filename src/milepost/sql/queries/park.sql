select {schema}.park(
  %(processor)s, %(version)s, %(transaction_ids)s::bigint[], %(positions)s::bigint[], %(error)s,
  %(traceback)s, %(attempts)s, %(is_replayed)s::boolean[], %(retry)s
)
