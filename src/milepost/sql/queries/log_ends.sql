-- Where the log begins: up to where it is in files, and up to where messages were removed. Nulls: no
-- files, nothing removed.
select
  archived.last_transaction_id,
  archived.last_position,
  nullif(log.removed_transaction_id, 0),
  nullif(log.removed_position, 0)
from {schema}.log as log
left join lateral (
  select a.last_transaction_id, a.last_position
  from {schema}.archive as a
  order by a.last_transaction_id desc, a.last_position desc
  limit 1
) as archived on true
