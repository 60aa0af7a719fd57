select
  id, channel, attempt, failures, max_attempts, priority, run_at, content, state, unique_key,
  keep_for is not null, token
from {schema}.take(
  %(max_count)s, make_interval(secs => %(lock_seconds)s), %(pattern)s, %(after)s, %(is_durable)s,
  %(max_channels)s
)
