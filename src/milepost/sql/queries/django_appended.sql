-- All that this transaction sees, its own included.
select m.type, m.data::text, m.key, m.topic, m.metadata::text, m.id
from {schema}.messages as m
order by m.transaction_id, m.position
