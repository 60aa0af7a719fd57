-- The newest message not above a position, whether or not anybody's filter lets it pass.
select transaction_id, "position"
from {schema}.messages
where (transaction_id, "position") <= (%(transaction_id)s, %(position)s)
order by transaction_id desc, "position" desc
limit 1
