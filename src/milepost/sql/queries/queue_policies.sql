select c.name, c.max_concurrency, c.release_interval, c.max_size, c.is_paused
from {schema}.channels as c
where c.is_paused or c.max_concurrency is not null or c.release_interval is not null
  or c.max_size is not null
order by c.name
