-- The gauges of metrics() that a diagnosis shows.
select
  g."order",
  g.messages,
  g.is_messages_exact,
  g.newest_transaction_id,
  g.newest_position,
  g.newest_age_seconds
from json_to_record(
  {schema}.metrics(array['log'], max_counted => %(max_counted)s) -> 'log'
) as g (
  "order" text, messages bigint, is_messages_exact boolean, newest_transaction_id bigint,
  newest_position bigint, newest_age_seconds float8
)
