-- How many messages are above the horizon: committed, and not read before older transactions end.
select count(*)
from (
  select from {schema}.messages as m
  where (m.transaction_id, m."position") > (%(transaction_id)s, %(position)s)
    and m.transaction_id >= %(transaction_id)s
  limit %(count_up_to)s
) as above
