-- Signs of life of processors that have nothing to do; whose were written. See processor_report: the
-- row is the active instance's. One that tries something again, for a long time, still does.
update {schema}.processors as p
set state = case when p.state = 'retrying' and p.owner = a.owner then p.state else 'running' end,
  owner = a.owner,
  handled = p.handled + a.handled,
  rate = a.rate,
  reported_at = clock_timestamp()
from unnest(
  %(processors)s::text[], %(versions)s::integer[], %(owners)s::text[],
  %(handled)s::bigint[], %(rates)s::float8[]
) as a (name, version, owner, handled, rate)
where p.name = a.name
  and p.version = a.version
  and (
    p.owner = a.owner
    or p.state in ('stopped', 'failed')
    or p.reported_at < clock_timestamp() - interval '15 s'
  )
returning p.name, p.version, p.owner
