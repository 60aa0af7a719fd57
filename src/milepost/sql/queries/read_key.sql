-- Bounded by a horizon that an earlier statement took.
select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
from {schema}.read_key(
  %(key)s,
  row(%(after_transaction_id)s, %(after_position)s)::{schema}.position,
  %(max_count)s,
  %(topics)s,
  %(types)s,
  row(%(horizon_transaction_id)s, %(horizon_position)s)::{schema}.position
)
