select key
from {schema}.parked_keys
where processor = %(processor)s and version = %(version)s
order by parked_at, id
limit 1
