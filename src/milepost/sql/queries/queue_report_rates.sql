-- A worker's rates of the last seconds. Rows that were not updated for an hour are deleted; SKIP
-- LOCKED: another session is deleting them.
with old as (
  delete from {schema}.channel_rates as r
  where (r.channel, r.owner) in (
    select o.channel, o.owner from {schema}.channel_rates as o
    where o.reported_at < clock_timestamp() - interval '1 hour' and o.owner <> %(owner)s
    limit 1000
    for update skip locked
  )
)
insert into {schema}.channel_rates as r (channel, owner, done_per_second, reported_at)
select a.channel, %(owner)s, a.rate, clock_timestamp()
from unnest(%(channels)s::text[], %(rates)s::float8[]) as a (channel, rate)
order by a.channel
on conflict (channel, owner) do update set
  done_per_second = excluded.done_per_second, reported_at = excluded.reported_at
