-- A job with only a channel and content: fewer parameters, which makes a single put faster.
select {schema}.put_bytes(%(channel)s::text, %(content)b::bytea)
