-- The first letters of a parked key, in any order: a sort here would hide what the inner order is for.
-- Written as the first letters of this key or later ones, and ordered by the key too, so that the
-- planner cannot scan all letters in order for a key that seems frequent.
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
  limit %(most)s
) as first
where parked_id = %(parked_id)s
