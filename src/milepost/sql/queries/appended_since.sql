-- COPY returns nothing. The rows of others that were drawn meanwhile are told apart by id.
select transaction_id, "position"
from {schema}.messages
where (transaction_id, "position") > (%(transaction_id)s, %(position)s)
  and transaction_id >= %(transaction_id)s
  and id = any(%(ids)s::uuid[])
order by transaction_id, "position"
