-- Ids that more than one message has, and their positions.
select
  m.id::text,
  array_agg(m.transaction_id || ':' || m."position" order by m.transaction_id, m."position")
from {schema}.messages as m
group by m.id
having count(*) > 1
order by min(m.transaction_id), min(m."position")
limit 10
