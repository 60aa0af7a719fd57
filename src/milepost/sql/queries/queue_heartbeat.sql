select verdict::text
from {schema}.heartbeat(
  %(ids)b::bigint[], %(attempts)b::integer[], make_interval(secs => %(lock_seconds)s),
  %(progress)b::bytea[], %(tokens)b::bigint[], %(begun)b::boolean[]
) as verdict
