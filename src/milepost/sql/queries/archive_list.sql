-- All files, the oldest messages first.
select
  after_transaction_id, after_position, last_transaction_id, last_position, location, name, messages,
  bytes, sha256, recorded_from, recorded_to, topics, types, format_version, has_content, epoch,
  written_at
from {schema}.archive
order by last_transaction_id, last_position
