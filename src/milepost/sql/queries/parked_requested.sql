-- The parked keys that are to be retried, of one segment.
select id, key
from {schema}.parked_keys
where processor = %(processor)s
  and version = %(version)s
  and retry_requested_at is not null
  and {schema}.key_hash(key) & %(mask)s = %(segment)s
order by retry_requested_at, id
limit 100
