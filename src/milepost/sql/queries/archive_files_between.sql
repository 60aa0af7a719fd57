-- The files that have messages of a range, in order.
select
  after_transaction_id, after_position, last_transaction_id, last_position, location, name, messages,
  bytes, sha256, recorded_from, recorded_to, topics, types, format_version, has_content, epoch,
  written_at
from {schema}.archive
where (last_transaction_id, last_position) > (%(after_transaction_id)s, %(after_position)s)
  and (after_transaction_id, after_position) < (%(last_transaction_id)s, %(last_position)s)
order by last_transaction_id, last_position
