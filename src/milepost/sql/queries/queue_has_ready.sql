-- Whether a job waits in a channel, after a look that took none. Ordered, so that the planner stays
-- on the index.
select exists (
  select from {schema}.jobs as j
  where j.status = 'ready' and j.channel = %(channel)s
  order by j.channel, j.priority, j.run_at, j.id
  limit 1
)
