-- One message with the columns of a read; no row if the table does not have it.
select type, data, key, topic, metadata, id, transaction_id, "position", recorded_at
from {schema}.messages
where transaction_id = %(transaction_id)s and "position" = %(position)s
