-- The messages of one append, in the transaction that wrote them: they are still above the horizon.
select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
from {schema}.messages
where transaction_id = %(transaction_id)s and "position" = any(%(positions)s)
order by transaction_id, "position"
