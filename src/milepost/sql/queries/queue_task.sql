select
  j.status::text as status, j.failures, j.created_at, j.finished_at, j.content, j.progress,
  j.result, j.last_error
from {schema}.jobs as j
where j.id = %(id)s
