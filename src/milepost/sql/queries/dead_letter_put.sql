-- Of the message at a position; with `message_id`, of a message that was read from the archive, as
-- it is stored there. No row: neither has it.
insert into {schema}.dead_letters (
  processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
  recorded_at, error, traceback, attempts, is_replayed
)
select
  %(processor)s, %(version)s, m.transaction_id, m."position", m.id, m.topic, m.key, m.type, m.data,
  m.metadata, m.recorded_at, %(error)s, %(traceback)s, %(attempts)s, %(is_replayed)s
from (
  select transaction_id, "position", id, topic, key, type, data, metadata, recorded_at
  from {schema}.messages
  where %(message_id)s::uuid is null
    and transaction_id = %(transaction_id)s
    and "position" = %(position)s
  union all
  select
    %(transaction_id)s::bigint, %(position)s::bigint, %(message_id)s::uuid, %(topic)s::text, %(key)s::text,
    %(type)s::text, %(data)s::json, %(metadata)s::json, %(recorded_at)s::timestamptz
  where %(message_id)s::uuid is not null
) as m
on conflict (processor, version, transaction_id, "position") do update
set error = excluded.error,
  traceback = excluded.traceback,
  attempts = dead_letters.attempts + excluded.attempts,
  failed_at = clock_timestamp(),
  is_replayed = excluded.is_replayed,
  retry_requested_at = null
returning id
