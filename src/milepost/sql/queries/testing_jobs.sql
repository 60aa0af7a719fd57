-- The jobs, without what differs after a crash: their ids, times, attempts and locks.
select pg_catalog.jsonb_build_object(
  'channel', j.channel, 'status', j.status, 'content', shown.content, 'state', shown.state,
  'result', shown.result, 'priority', j.priority, 'unique_key', j.unique_key,
  'max_attempts', j.max_attempts
)::text
from {schema}.jobs as j
cross join lateral (
  select
    pg_catalog.encode(j.content, 'hex') as content,
    pg_catalog.encode(j.state, 'hex') as state,
    pg_catalog.encode(j.result, 'hex') as result
) as shown
order by j.id
