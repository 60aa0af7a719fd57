-- The ids of jobs, the oldest first. `search`: an id, or a part of the unique key, the last error or the
-- content, in this case of letters.
select j.id
from {schema}.jobs as j
where (%(channel)s::text is null or j.channel = %(channel)s)
  and (%(status)s::text is null or j.status = %(status)s::{schema}.job_status)
  and (%(after)s::bigint is null or j.id > %(after)s)
  and (
    %(search)s::text is null
    or j.id::text = %(search)s
    or position(%(search)s::text in j.unique_key::text) > 0
    or position(%(search)s::text in j.last_error) > 0
    or position(convert_to(%(search)s::text, 'UTF8') in j.content) > 0
  )
order by j.id
limit %(max_count)s
