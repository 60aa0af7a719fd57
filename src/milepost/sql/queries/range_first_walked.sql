-- Where a walk of max_walked messages backwards ends, and whether it ends at the table's first
-- message. No row if there is no message up to the position.
select walked.transaction_id, walked."position", walked.is_first
from (
  (
    select 1 as rank, transaction_id, "position", false as is_first
    from {schema}.messages
    where (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
      and transaction_id <= %(last_transaction_id)s
    order by transaction_id desc, "position" desc
    offset %(max_walked)s::bigint - 1
    limit 1
  )
  union all
  (
    select 2, transaction_id, "position", true
    from {schema}.messages
    where (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
    order by transaction_id, "position"
    limit 1
  )
) as walked
order by walked.rank
limit 1
