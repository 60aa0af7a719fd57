-- Like queue_put_many_plain, within a span.
select array(select {schema}.put_many_bytes(
  %(channels)b::text[], %(contents)b::bytea[], trace => %(trace)s::text
))
