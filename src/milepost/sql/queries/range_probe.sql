-- For each transaction id, the first message of that transaction or a later one.
select found.transaction_id, found."position"
from unnest(%(transaction_ids)s::bigint[]) with ordinality as asked (transaction_id, number)
cross join lateral (
  select m.transaction_id, m."position"
  from {schema}.messages as m
  where m.transaction_id >= asked.transaction_id
  order by m.transaction_id, m."position"
  limit 1
) as found
order by asked.number
