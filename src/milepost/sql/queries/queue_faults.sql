-- States that must not occur, or not for long; see queue/health.py. One snapshot, taken before
-- the sequences are read: everything in it was drawn before.
select 'overdue', count(*), extract(
  epoch from clock_timestamp() - min({schema}.in_range(j.run_at))
)::float8
from {schema}.jobs as j
where j.status = 'scheduled'
  and j.run_at < statement_timestamp() - make_interval(secs => %(late_seconds)s)
having count(*) > 0
union all
select 'expired', count(*), extract(epoch from clock_timestamp() - min(j.locked_until))::float8
from {schema}.jobs as j
where j.status = 'running'
  and j.locked_until < statement_timestamp() - make_interval(secs => %(late_seconds)s)
having count(*) > 0
union all
select 'orphaned', count(*), 0
from {schema}.jobs as j
where j.status = 'waiting' and not exists (
  select from {schema}.job_dependencies as d
  where d.job_id = j.id and (
    not d.is_linked
    or exists (select from {schema}.jobs as p where p.id = d.after_id)
    or exists (select from {schema}.job_endings as e where e.job_id = d.after_id)
  )
)
having count(*) > 0
union all
select 'hint', count(*), 0
from {schema}.channel_policies() as c
where c.max_concurrency is not null and exists (
  select from {schema}.jobs as j
  where j.status = 'running' and j.channel = c.name collate "C" and j.taken < c.oldest_running
)
having count(*) > 0
union all
select 'ids', max(j.id), 0
from {schema}.jobs as j
having max(j.id) > case
  -- For a sequence that is hidden, PostgreSQL 15 and 16 raise an error, later ones return null.
  when has_sequence_privilege('{schema}.jobs_id_seq', 'usage, select')
  then coalesce(pg_sequence_last_value('{schema}.jobs_id_seq'), 0)
end
union all
select 'taken', max(j.taken), 0
from {schema}.jobs as j
where j.status = 'running'
having max(j.taken) > case
  when has_sequence_privilege('{schema}.jobs_taken_seq', 'usage, select')
  then coalesce(pg_sequence_last_value('{schema}.jobs_taken_seq'), 0)
end
