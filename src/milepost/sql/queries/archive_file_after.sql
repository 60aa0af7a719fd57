-- The file that has the messages after a position; no row if none has. A reader that has seen
-- messages that were lost is refused here as it is by the table.
select
  after_transaction_id, after_position, last_transaction_id, last_position, location, name, messages,
  bytes, sha256, recorded_from, recorded_to, topics, types, format_version, has_content, epoch,
  written_at
from {schema}.archive
where (last_transaction_id, last_position) > (%(transaction_id)s, %(position)s)
  and (after_transaction_id, after_position) <= (%(transaction_id)s, %(position)s)
  and {schema}.refuse_lost(row(%(transaction_id)s, %(position)s)::{schema}.position)
order by last_transaction_id, last_position
limit 1
