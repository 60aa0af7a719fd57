-- Whether nothing is left to do now in the channels of a pattern. Jobs that are scheduled for
-- later, that wait for others, or in a paused channel, do not count; jobs that another worker runs do, as they may come
-- back.
select not exists (
  select from {schema}.jobs as j
  where (j.status = 'running' or j.status = 'ready'
      or j.status = 'scheduled' and j.run_at <= clock_timestamp()
      -- Nobody has told it yet that another one ended.
      or j.status = 'waiting' and exists (
        select from {schema}.job_dependencies as d
        where d.job_id = j.id and (
          not d.is_linked
          or exists (select from {schema}.job_endings as e where e.job_id = d.after_id)
        )
      ))
    and (
      j.channel = %(pattern)s
      or %(pattern)s like '%%*' and starts_with(j.channel, rtrim(%(pattern)s, '*'))
        and not starts_with(j.channel, 'milepost.')
    )
    and (
      j.status = 'running'
      or j.channel not in (
          select c.name collate "C" from {schema}.channel_policies() as c where c.is_paused
        )
        and not exists (
          select from {schema}.family_of(j.channel) as found
          join {schema}.channels as f on f.name = found.family collate "C" and f.is_paused
          where not exists (select from {schema}.channels as c where c.name = j.channel)
        )
    )
)
