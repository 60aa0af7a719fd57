-- From one channel, by its name. The duties may be left out by who asks again soon, and then does them.
select
  id, channel, attempt, failures, max_attempts, priority, run_at, content, state, unique_key,
  keep_for is not null, token
from (select case when %(with_duties)s then {schema}.queue_duties() end) as duties
cross join {schema}.take_from(
  array[%(channel)s::text], %(max_count)s, make_interval(secs => %(lock_seconds)s),
  is_durable => %(is_durable)s
)
