-- As if the time had passed after which others may take over from a process that is gone, and after
-- which failed jobs are tried again.
with running as (
  update {schema}.jobs as j
  set locked_until = clock_timestamp() - interval '1 millisecond'
  where j.status = 'running'
), failed as (
  update {schema}.jobs as j
  set run_at = clock_timestamp()
  where j.status = 'scheduled' and j.failures > 0
), gone as (
  delete from {schema}.instances
)
update {schema}.segments as s
set owner = null, claimed_until = null
where s.owner is not null
