-- Before many jobs are copied: refuse full channels, and draw the ids, in one round trip.
select clock_timestamp(), array(
  select nextval('{schema}.jobs_id_seq') from generate_series(1, %(count)s)
)
from {schema}.refuse_full(%(channels)b::text[], %(counts)b::bigint[]) as checked
