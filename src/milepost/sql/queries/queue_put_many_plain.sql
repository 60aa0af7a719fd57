-- Jobs with only a channel and content, which is the most frequent case.
select array(select {schema}.put_many_bytes(%(channels)b::text[], %(contents)b::bytea[]))
