select id, mask, epoch, transaction_id, "position"
from {schema}.claim_segments(
  %(processor)s, %(version)s, %(owner)s, %(max_count)s, %(claim_seconds)s
)
order by id
