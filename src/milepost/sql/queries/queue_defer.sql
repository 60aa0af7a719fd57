select verdict::text
from {schema}.defer(
  %(ids)b::bigint[], %(attempts)b::integer[], %(delays)b::interval[], %(run_ats)b::timestamptz[],
  %(states)b::bytea[]
) as verdict
