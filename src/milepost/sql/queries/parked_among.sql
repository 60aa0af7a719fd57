-- The keys of a batch that are parked. Without a lock: park() takes it, and parks a key again that
-- was drained in between. The digests are sent in binary, which takes a quarter of the time.
select key
from {schema}.parked_keys
where processor = %(processor)s
  and version = %(version)s
  and digest = any(%(digests)b::bytea[])
