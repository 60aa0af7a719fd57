-- The instances of a processor that are alive, and how many segments each has claimed.
select
  i.owner, i.started_at, i.alive_until, i.rate,
  (
    select count(*) from {schema}.segments as s
    where s.processor = i.processor and s.version = i.version and s.owner = i.owner
      and s.claimed_until > clock_timestamp()
  ) as segments
from {schema}.instances as i
where i.processor = %(processor)s and i.version = %(version)s
  and i.alive_until > clock_timestamp()
order by i.started_at, i.owner
