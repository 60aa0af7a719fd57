-- Which keys of a batch are parked. Without a lock: park() takes it, and parks a key anew that was
-- drained in between. The digests go in binary, which takes a quarter of the time.
select key
from {schema}.parked_keys
where processor = %(processor)s
  and version = %(version)s
  and digest = any(%(digests)b::bytea[])
