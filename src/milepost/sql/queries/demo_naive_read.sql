-- What most outboxes do: read everything after the last known position that is visible now. It
-- skips messages that commit later with a lower position. Used only to show how many that are.
select id, transaction_id, "position", data
from {schema}.messages
where (transaction_id, "position") > (%(transaction_id)s, %(position)s)
order by transaction_id, "position"
