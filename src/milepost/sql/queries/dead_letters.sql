select
  id, processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
  recorded_at, error, traceback, attempts, failed_at, retry_requested_at
from {schema}.dead_letters
where (%(processor)s::text is null or processor = %(processor)s)
  and (%(id)s::bigint is null or id = %(id)s)
order by id
limit %(limit)s
