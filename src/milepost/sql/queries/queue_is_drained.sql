-- Whether nothing is left to do now in the channels of a pattern: what waits for its time, or in a
-- paused channel, does not count; what another worker runs does, as it may come back.
select not exists (
  select from {schema}.jobs as j
  where (j.status = 'running' or j.status = 'ready'
      or j.status = 'scheduled' and j.run_at <= clock_timestamp())
    and (
      j.channel = %(pattern)s
      or %(pattern)s like '%%*' and starts_with(j.channel, rtrim(%(pattern)s, '*'))
    )
    and (
      j.status = 'running'
      or j.channel not in (select c.name from {schema}.channels as c where c.is_paused)
    )
)
