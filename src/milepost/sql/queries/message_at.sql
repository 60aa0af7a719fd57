-- What a message is, without its data; no row if the table does not have it.
select topic, type, key
from {schema}.messages
where transaction_id = %(transaction_id)s and "position" = %(position)s
