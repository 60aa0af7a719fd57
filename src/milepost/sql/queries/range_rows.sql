-- The first and the last message of a range, without a filter; no row if there is none. Refuses a
-- range whose start was removed.
select
  first_row.transaction_id, first_row."position", last_row.transaction_id, last_row."position"
from (
  select transaction_id, "position"
  from {schema}.messages
  where (transaction_id, "position") > (%(after_transaction_id)s, %(after_position)s)
    and {schema}.refuse_removed(
      row(%(after_transaction_id)s, %(after_position)s)::{schema}.position
    )
  order by transaction_id, "position"
  limit 1
) as first_row
cross join (
  select transaction_id, "position"
  from {schema}.messages
  where (transaction_id, "position") <= (%(last_transaction_id)s, %(last_position)s)
  order by transaction_id desc, "position" desc
  limit 1
) as last_row
where (first_row.transaction_id, first_row."position")
  <= (last_row.transaction_id, last_row."position")
