-- From one channel, by its name. A caller that takes again soon may omit the duties, and do them
-- then.
select
  id, channel, attempt, failures, max_attempts, priority, {schema}.in_range(run_at), content,
  state, unique_key, keep_for is not null, token,
  (failures + 1 >= max_attempts)::integer + 2 * (crashes >= 2)::integer
    + 4 * is_begin_awaited::integer,
  trace
from (select case when %(with_duties)s then {schema}.queue_duties() end) as duties
cross join {schema}.take_from(
  array[%(channel)s::text], %(max_count)s, make_interval(secs => %(lock_seconds)s),
  is_durable => %(is_durable)s, is_ahead => %(is_ahead)s
)
order by priority, run_at, id
