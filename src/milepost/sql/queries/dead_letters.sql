select
  d.id, d.processor, d.version, d.transaction_id, d."position", d.message_id, d.topic, d.key, d.type,
  d.data as raw_data, d.metadata as raw_metadata, d.recorded_at, d.error, d.traceback, d.attempts, d.failed_at,
  coalesce(k.retry_requested_at, d.retry_requested_at) as retry_requested_at,
  d.is_parked,
  d.is_replayed
from {schema}.dead_letters as d
left join {schema}.parked_keys as k on k.id = d.parked_id
where (%(processor)s::text is null or d.processor = %(processor)s)
  and (%(key)s::text is null or d.key = %(key)s)
  and (%(id)s::bigint is null or d.id = %(id)s)
  and (
    %(search)s::text is null
    or position(%(search)s in d.error) > 0
    or position(%(search)s in d.type) > 0
  )
order by d.id
limit %(limit)s
