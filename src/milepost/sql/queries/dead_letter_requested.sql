select id, type, data, key, topic, metadata, message_id, transaction_id, "position", recorded_at
from {schema}.dead_letters
where processor = %(processor)s and version = %(version)s and retry_requested_at is not null
order by transaction_id, "position"
limit 100
