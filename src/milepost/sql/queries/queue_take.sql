select
  id, channel, attempt, failures, max_attempts, priority, {schema}.in_range(run_at), content,
  state, unique_key, keep_for is not null, token,
  (failures + 1 >= max_attempts)::integer + 2 * (crashes >= 2)::integer
    + 4 * is_begin_awaited::integer,
  trace
from {schema}.take(
  %(max_count)s, make_interval(secs => %(lock_seconds)s), %(pattern)s, %(after)s, %(is_durable)s,
  %(max_channels)s, %(is_ahead)s
)
