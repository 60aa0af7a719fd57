-- Dead letters of a pipeline that operators want to be retried, as Spark has messages.
select
  id as letter,
  transaction_id,
  "position",
  message_id::text as id,
  topic,
  key,
  type,
  data::text as data,
  metadata::text as metadata,
  case when isfinite(recorded_at) then (extract(epoch from recorded_at) * 1000000)::bigint end
    as recorded_us
from {schema}.dead_letters
where processor = %(processor)s
  and version = %(version)s
  and retry_requested_at is not null
order by transaction_id, "position"
limit 100
