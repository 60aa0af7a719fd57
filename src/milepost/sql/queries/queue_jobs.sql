select
  j.id, j.channel::text as channel, j.status::text as status, j.attempt, j.failures,
  j.max_attempts, j.priority, {schema}.in_range(j.run_at) as run_at, j.locked_until, j.created_at, j.finished_at,
  j.unique_key::text as unique_key, j.is_cancelled, j.content, j.state, j.progress, j.result,
  j.last_error,
  array(
    select d.after_id from {schema}.job_dependencies as d where d.job_id = j.id order by d.after_id
  ) as after
from {schema}.jobs as j
where (%(channel)s::text is null or j.channel = %(channel)s)
  and (%(status)s::text is null or j.status = %(status)s::{schema}.job_status)
  and (%(id)s::bigint is null or j.id = %(id)s)
  and (%(ids)s::bigint[] is null or j.id = any(%(ids)s))
order by j.id
limit %(max_count)s
