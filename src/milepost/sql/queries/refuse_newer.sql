select {schema}.refuse_newer(
  %(newer_key)s::text,
  row(%(newer_transaction_id)s::bigint, %(newer_position)s::bigint)::{schema}.position,
  %(newer_types)s::text[]
)
