select {schema}.reset_processor(
  %(processor)s, %(version)s, row(%(transaction_id)s, %(position)s)::{schema}.position, %(operator)s
)
