select number, transaction_id, "position"
from {schema}.remove_messages(
  %(max_count)s, row(%(transaction_id)s, %(position)s)::{schema}.position
)
