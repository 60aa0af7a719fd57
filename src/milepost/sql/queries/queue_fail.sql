select verdict::text
from {schema}.fail(
  %(ids)b::bigint[], %(attempts)b::integer[], %(delays)b::interval[], %(errors)b::text[],
  %(finals)b::boolean[], %(tokens)b::bigint[]
) as verdict
