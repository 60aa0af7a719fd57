-- As appended_messages, for drivers that decode json and uuid as their user has told them.
select
  type, data::text, key, topic, metadata::text, id::text, transaction_id, "position", recorded_at
from {schema}.messages
where transaction_id = %(transaction_id)s::bigint and "position" = any(%(positions)s::bigint[])
order by transaction_id, "position"
