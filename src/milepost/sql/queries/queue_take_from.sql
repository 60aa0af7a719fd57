-- The duties, because a hinted take passes take() by.
select
  id, channel, attempt, failures, max_attempts, priority, run_at, content, state, unique_key,
  keep_for is not null, token
from {schema}.queue_duties() as duties
cross join {schema}.take_from(
  %(channels)s::text[], %(max_count)s, make_interval(secs => %(lock_seconds)s),
  %(priorities)s::smallint[], %(run_ats)s::timestamptz[], %(ids)s::bigint[], %(is_durable)s
)
