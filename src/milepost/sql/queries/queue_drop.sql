-- Jobs that wait for one of them go on.
with dropped as (
  delete from {schema}.jobs where id = any(%(ids)s::bigint[]) and status = 'dead' returning id
),
noted as materialized (
  select {schema}.note_removals(array_agg(id), 'dropped') from dropped
)
select dropped.id from dropped cross join noted
