-- For workers of one process that found nothing: the numbers of those whose pattern has a ready job
-- now. The complete order by keeps the planner on jobs_ready.
select w.number
from unnest(%(patterns)b::text[]) with ordinality as w (pattern, number)
cross join lateral (
  (select from {schema}.jobs as j
    where j.status = 'ready' and j.channel = w.pattern
    order by j.channel, j.priority, j.run_at, j.id limit 1)
  union all
  (select from {schema}.channels_with_room(left(w.pattern, -1), null, 1)
    where right(w.pattern, 1) = '*')
) as found
