select verdict::text
from {schema}.defer(
  %(ids)b::bigint[], %(attempts)b::integer[], %(delays)b::interval[], %(run_ats)b::timestamptz[],
  %(states)b::bytea[], %(tokens)b::bigint[]
) as verdict
