-- The files that have messages which were removed from the table, and may have some that were
-- recorded at a time or later; in order.
select
  a.after_transaction_id, a.after_position, a.last_transaction_id, a.last_position, a.location,
  a.name, a.messages, a.bytes, a.sha256, a.recorded_from, a.recorded_to, a.topics, a.types,
  a.format_version, a.has_content, a.epoch, a.written_at
from {schema}.archive as a
cross join {schema}.log
where (a.recorded_to >= %(recorded_from)s or a.recorded_to is null)
  and (a.after_transaction_id, a.after_position) < (log.removed_transaction_id, log.removed_position)
order by a.last_transaction_id, a.last_position
