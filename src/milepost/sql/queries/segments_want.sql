select id, mask, epoch, is_claimed, owner
from {schema}.want_segments(
  %(processor)s, %(version)s, %(owner)s, %(ids)s::integer[], %(claim_seconds)s
)
