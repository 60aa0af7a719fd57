-- The parked keys of one segment that are to be retried.
select id, key
from {schema}.parked_keys
where processor = %(processor)s
  and version = %(version)s
  and retry_requested_at is not null
  and {schema}.key_hash(key) & %(mask)s = %(segment)s
order by retry_requested_at, id
limit 100
