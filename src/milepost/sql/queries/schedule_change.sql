-- A schedule that is registered with other contents. While it ticks, the tick in hand is the old
-- one's still, which also chooses when the next one is.
update {schema}.jobs as j
set content = %(content)b,
  run_at = case when j.status = 'running' then j.run_at else %(run_at)s end,
  status = case when j.status = 'running' then j.status else 'scheduled' end,
  state = %(state)b
where j.channel = %(channel)s and j.unique_key = %(name)s
  and j.status in ('ready', 'scheduled', 'running')
  and j.content <> %(content)b
