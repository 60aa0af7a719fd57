-- Of these jobs, the dead ones whose unique key another job of their channel has now, and that job.
select d.id, h.id, h.unique_key
from {schema}.jobs as d
join {schema}.jobs as h on h.channel = d.channel and h.unique_key = d.unique_key and (
  h.status in ('ready', 'scheduled', 'running') or h.status = 'done' and h.unique_for is not null
)
where d.id = any(%(ids)s::bigint[]) and d.status = 'dead'
