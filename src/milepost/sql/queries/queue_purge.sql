-- The jobs of a channel that have not begun; running jobs are not touched. Jobs that wait for one of
-- them are cancelled.
with purged as (
  delete from {schema}.jobs
  where channel = %(channel)s and status = any(%(statuses)s::{schema}.job_status[])
    and status <> 'running'
  returning id, status
),
noted as materialized (
  select {schema}.note_removals(
    array_agg(id), case when status = 'dead' then 'dropped' else 'cancelled' end
  )
  from purged where status not in ('done', 'cancelled') group by status
)
select count(*) as purged, (select count(*) from noted) as kinds from purged
