select after_transaction_id, after_position, last_transaction_id, last_position, about, location
from {schema}.plan_archive(
  %(file_messages)s, %(least_messages)s, make_interval(secs => %(longest_wait_seconds)s), %(is_last)s
)
