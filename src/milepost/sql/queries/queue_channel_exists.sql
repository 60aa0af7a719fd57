-- Whether a channel, or a channel of a family, is known: by its policy, its unfinished or dead jobs,
-- the rate of a worker, or a schedule. The conditions of jobs are those of the indexes by channel.
with asked as (
  select
    case when right(%(name)s, 1) = '*' then left(%(name)s, -1) else %(name)s end collate "C" as low,
    case when right(%(name)s, 1) = '*' then left(%(name)s, -1) || repeat(chr(1114111), 256)
      else %(name)s end collate "C" as high
)
select
  exists (select from {schema}.channels as c where c.name = %(name)s)
  or exists (select from {schema}.channels as c where c.name between a.low and a.high)
  or exists (select from {schema}.channel_upkeep as u where u.name = %(name)s)
  or exists (select from {schema}.channel_rates as r where r.channel between a.low and a.high)
  or exists (select from {schema}.schedules as s where s.channel between a.low and a.high)
  or exists (
    select from {schema}.jobs as j
    where j.status = 'ready' and j.channel between a.low and a.high
  )
  or exists (
    select from {schema}.jobs as j
    where j.status = 'scheduled' and j.channel between a.low and a.high
  )
  or exists (
    select from {schema}.jobs as j
    where j.status = 'running' and j.channel between a.low and a.high
  )
  or exists (
    select from {schema}.jobs as j where j.status = 'dead' and j.channel between a.low and a.high
  )
  or exists (
    select from {schema}.jobs as j
    where j.status = 'waiting' and j.channel between a.low and a.high
  )
from asked as a
