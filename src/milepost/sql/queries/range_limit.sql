-- Where to end a range of at most max_count selected messages: at the last of them, or after
-- max_walked examined messages, whichever comes first; no row if the range has fewer. The scan goes
-- no further than that: the inner limit cannot be flattened, and nothing of the scan is stored. Refuses a range
-- whose start was removed.
with nth as materialized (
  select transaction_id, "position"
  from (
    select transaction_id, "position", topic, type
    from {schema}.messages
    where (transaction_id, "position") > (%(after_transaction_id)s, %(after_position)s)
      and (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
      and transaction_id >= %(after_transaction_id)s
      and {schema}.refuse_removed(
        row(%(after_transaction_id)s, %(after_position)s)::{schema}.position
      )
    order by transaction_id, "position"
    limit %(max_walked)s
  ) as walked
  where (%(topics)s::text[] is null or topic = any(%(topics)s::text[]))
    and (%(types)s::text[] is null or type = any(%(types)s::text[]))
  offset %(max_count)s::bigint - 1
  limit 1
)
select transaction_id, "position"
from nth
union all (
  select transaction_id, "position"
  from {schema}.messages
  where not exists (select from nth)
    and (transaction_id, "position") > (%(after_transaction_id)s, %(after_position)s)
    and (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
    and transaction_id >= %(after_transaction_id)s
  order by transaction_id, "position"
  offset %(max_walked)s::bigint - 1
  limit 1
)
