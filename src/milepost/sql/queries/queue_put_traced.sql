-- Like queue_put_plain, within a span.
select {schema}.put_bytes(%(channel)s::text, %(content)b::bytea, trace => %(trace)s::text)
