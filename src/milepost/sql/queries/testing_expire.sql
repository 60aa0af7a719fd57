-- As if the time had passed after which others may take over from a process that is gone.
with jobs as (
  update {schema}.jobs as j
  set locked_until = clock_timestamp() - interval '1 millisecond'
  where j.status = 'running'
)
update {schema}.segments as s
set owner = null, claimed_until = null
where s.owner is not null
