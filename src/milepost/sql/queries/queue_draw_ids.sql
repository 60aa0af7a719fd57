-- Before many jobs are copied: refuse full channels, and draw the ids, in one round trip. The time is
-- in microseconds since 1970: converters of timestamps may be the caller's own.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint, array(
  select nextval('{schema}.jobs_id_seq') from generate_series(1, %(count)s)
)
from {schema}.refuse_full(%(channels)b::text[], %(counts)b::bigint[]) as checked
