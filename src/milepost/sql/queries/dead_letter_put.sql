insert into {schema}.dead_letters (
  processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
  recorded_at, error, traceback, attempts, is_replayed
)
select
  %(processor)s, %(version)s, transaction_id, "position", id, topic, key, type, data, metadata,
  recorded_at, %(error)s, %(traceback)s, %(attempts)s, %(is_replayed)s
from {schema}.messages
where transaction_id = %(transaction_id)s and "position" = %(position)s
on conflict (processor, version, transaction_id, "position") do update
set error = excluded.error,
  traceback = excluded.traceback,
  attempts = dead_letters.attempts + excluded.attempts,
  failed_at = clock_timestamp(),
  is_replayed = excluded.is_replayed,
  retry_requested_at = null
