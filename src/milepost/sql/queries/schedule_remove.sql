-- Also if it is still a job of the release before this one; a tick of it that is under way is undone.
with removed as (
  delete from {schema}.schedules as s where s.name = %(name)s returning 1
),
old as (
  delete from {schema}.jobs as j
  where j.channel = 'milepost.schedules' and j.unique_key = %(name)s
    and j.status in ('ready', 'scheduled', 'running')
  returning 1
)
select (select count(*) from removed) + (select count(*) from old)
