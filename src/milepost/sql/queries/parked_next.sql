-- The first letter of a parked key. Written as the first letter of this key or a later one, and
-- ordered by the key too, so that the planner cannot scan all letters in order for a key that seems
-- frequent.
select
  id, is_replayed, type, data, key, topic, metadata, message_id, transaction_id, "position",
  recorded_at
from (
  select
    id, is_replayed, type, data, key, topic, metadata, message_id, transaction_id, "position",
    recorded_at, parked_id
  from {schema}.dead_letters
  where parked_id >= %(parked_id)s
  order by parked_id, transaction_id, "position"
  limit 1
) as first
where parked_id = %(parked_id)s
