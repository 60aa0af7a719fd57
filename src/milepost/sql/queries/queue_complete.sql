select verdict::text
from {schema}.complete(
  %(ids)b::bigint[], %(attempts)b::integer[], %(results)b::bytea[]
) as verdict
