-- What must not be, or not for long; see queue/invariants.py. One snapshot, taken before the
-- sequences are read: what it shows was drawn before.
select 'overdue', count(*), extract(epoch from clock_timestamp() - min(j.run_at))::float8
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
select 'hint', count(*), 0
from {schema}.channels as c
where c.max_concurrency is not null and exists (
  select from {schema}.jobs as j
  where j.status = 'running' and j.channel = c.name and j.taken < c.oldest_running
)
having count(*) > 0
union all
select 'ids', max(j.id), 0
from {schema}.jobs as j
having max(j.id) > case
  -- Of a sequence that one may not see, PostgreSQL 15 and 16 raise an error, later ones say null.
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
