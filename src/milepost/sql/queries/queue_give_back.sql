select verdict::text
from {schema}.give_back(
  %(ids)b::bigint[], %(attempts)b::integer[], %(tokens)b::bigint[], %(delays)b::interval[]
) as verdict
