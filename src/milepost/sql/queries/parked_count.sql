-- The number of parked letters of a processor, counted up to one more than the limit.
select count(*)
from (
  select from {schema}.dead_letters
  where processor = %(processor)s and version = %(version)s and is_parked
  limit %(max_parked)s + 1
) as parked
