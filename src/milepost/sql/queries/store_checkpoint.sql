select {schema}.store_checkpoint(
  %(processor)s, %(version)s, %(segment)s,
  row(%(expected_transaction_id)s, %(expected_position)s)::{schema}.position,
  row(%(new_transaction_id)s, %(new_position)s)::{schema}.position,
  %(epoch)s, %(owner)s
)
