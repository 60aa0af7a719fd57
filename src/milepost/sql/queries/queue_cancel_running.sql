select verdict::text
from {schema}.cancel_running(
  %(ids)b::bigint[], %(attempts)b::integer[], %(errors)b::text[], %(tokens)b::bigint[]
) as verdict
