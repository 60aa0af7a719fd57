select number, transaction_id, "position"
from {schema}.erase_messages(
  %(key)s, row(%(transaction_id)s, %(position)s)::{schema}.position, %(max_count)s
)
