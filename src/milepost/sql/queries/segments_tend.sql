select ids, epochs, wanted, share, next_expiry_seconds
from {schema}.tend_claims(
  %(processor)s, %(version)s, %(owner)s, %(claim_seconds)s, %(rate)s
)
