-- How many letters a processor has parked, counted up to one more than it may have.
select count(*)
from (
  select from {schema}.dead_letters
  where processor = %(processor)s and version = %(version)s and is_parked
  limit %(max_parked)s + 1
) as parked
