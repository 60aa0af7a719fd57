-- What most outboxes do: everything after the last position seen that is visible now. It skips
-- for ever what commits later with a lower position. Here only to show how much that is.
select id, transaction_id, "position", data
from {schema}.messages
where (transaction_id, "position") > (%(transaction_id)s, %(position)s)
order by transaction_id, "position"
