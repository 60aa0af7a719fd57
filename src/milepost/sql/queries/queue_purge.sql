-- What waits in a channel; what runs is left alone.
delete from {schema}.jobs
where channel = %(channel)s and status = any(%(statuses)s::{schema}.job_status[])
  and status <> 'running'
