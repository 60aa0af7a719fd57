select {schema}.refuse_beyond(row(%(transaction_id)s, %(position)s)::{schema}.position)
