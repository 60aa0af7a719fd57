-- The max_count-th message of a range, without a filter; no row if the range has fewer. Answered
-- from the primary key alone. Refuses a range whose start was removed.
select transaction_id, "position"
from {schema}.messages
where (transaction_id, "position") > (%(after_transaction_id)s, %(after_position)s)
  and (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
  and transaction_id >= %(after_transaction_id)s
  and {schema}.refuse_removed(
    row(%(after_transaction_id)s, %(after_position)s)::{schema}.position
  )
order by transaction_id, "position"
offset %(max_count)s::bigint - 1
limit 1
