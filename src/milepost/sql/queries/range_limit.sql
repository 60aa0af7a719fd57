-- Where to end a range of at most max_count selected messages: at the last of them, or where
-- max_walked messages have been looked at, whichever comes first; none if the range has fewer.
-- The walk is filled only as far as it is looked at.
with walked as materialized (
  select transaction_id, "position", topic, type
  from {schema}.messages
  where (transaction_id, "position") > (%(after_transaction_id)s, %(after_position)s)
    and (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
    and transaction_id >= %(after_transaction_id)s
  order by transaction_id, "position"
  limit %(max_walked)s
),
nth as materialized (
  select transaction_id, "position"
  from walked
  where (%(topics)s::text[] is null or topic = any(%(topics)s::text[]))
    and (%(types)s::text[] is null or type = any(%(types)s::text[]))
  offset %(max_count)s::bigint - 1
  limit 1
)
select transaction_id, "position"
from nth
union all (
  select transaction_id, "position"
  from walked
  where not exists (select from nth)
  offset %(max_walked)s::bigint - 1
  limit 1
)
