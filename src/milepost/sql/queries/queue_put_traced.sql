-- Like queue_put_plain, within a span.
select {schema}.put_bytes(%(channel)s, %(content)b, trace => %(trace)s)
