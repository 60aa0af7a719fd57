select verdict::text
from {schema}.mark_begun(
  %(ids)b::bigint[], %(attempts)b::integer[], %(tokens)b::bigint[], %(begun_ago)b::interval[]
) as verdict
