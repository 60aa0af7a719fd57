select verdict::text
from {schema}.complete(
  %(ids)b::bigint[], %(attempts)b::integer[], %(results)b::bytea[],
  %(tokens)b::bigint[], %(none_is_kept)s
) as verdict
