-- A job with nothing but a channel and content: fewer parameters, which is felt where one is put.
select {schema}.put_bytes(%(channel)s, %(content)b)
