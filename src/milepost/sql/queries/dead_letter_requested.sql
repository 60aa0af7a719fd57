-- Letters that are retried alone: without others of a parked key before them. Of one segment.
select
  id, is_replayed, type, data, key, topic, metadata, message_id, transaction_id, "position",
  recorded_at
from {schema}.dead_letters
where processor = %(processor)s
  and version = %(version)s
  and retry_requested_at is not null
  and parked_id is null
  and {schema}.key_hash(key) & %(mask)s = %(segment)s
order by transaction_id, "position"
limit 100
