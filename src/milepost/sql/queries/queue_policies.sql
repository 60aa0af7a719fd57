-- A policy without limits counts where it exempts a channel from its family.
select
  c.name, c.max_concurrency, c.release_interval, c.max_size, c.is_paused, c.max_concurrency_total,
  c.rate_count, c.rate_period, c.rate_burst
from {schema}.channels as c
left join lateral {schema}.family_of(c.name) as f on true
where c.is_paused or c.max_concurrency is not null or c.release_interval is not null
  or c.max_size is not null or c.max_concurrency_total is not null or c.rate_count is not null
  or c.is_policy and f.family <> c.name
order by c.name
