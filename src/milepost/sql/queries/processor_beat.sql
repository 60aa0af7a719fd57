-- The instances of processors without segments are alive. Those that ended without a word are
-- removed by another one of their processor, an hour later.
with gone as (
  select i.processor, i.version, i.owner
  from {schema}.instances as i
  where (i.processor, i.version) in (
      select * from unnest(%(processors)s::text[], %(versions)s::integer[])
    )
    and i.alive_until < clock_timestamp() - interval '1 hour'
  for update skip locked
),
removed as (
  delete from {schema}.instances as i
  using gone
  where i.processor = gone.processor and i.version = gone.version and i.owner = gone.owner
)
insert into {schema}.instances (processor, version, owner, alive_until, claim_seconds)
select name, version, owner, clock_timestamp() + make_interval(secs => alive_seconds), alive_seconds
from unnest(
  %(processors)s::text[], %(versions)s::integer[], %(owners)s::text[], %(alive_seconds)s::float8[]
) as a (name, version, owner, alive_seconds)
on conflict (processor, version, owner) do update
set alive_until = excluded.alive_until
