-- The oldest of the last max_count selected messages up to a position, and how many there are. No
-- more than max_walked messages are examined, backwards along the primary key. What was removed from
-- the table is not there to be found, and nothing is refused.
select count(*), (array_agg(transaction_id order by transaction_id, "position"))[1],
  (array_agg("position" order by transaction_id, "position"))[1]
from (
  select transaction_id, "position"
  from (
    select transaction_id, "position", topic, type
    from {schema}.messages
    where (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
      and transaction_id <= %(last_transaction_id)s
    order by transaction_id desc, "position" desc
    limit %(max_walked)s
  ) as walked
  where (%(topics)s::text[] is null or topic = any(%(topics)s::text[]))
    and (%(types)s::text[] is null or type = any(%(types)s::text[]))
  limit %(max_count)s
) as selected
