-- Jobs that wait for other jobs (docs/decisions/0024), keys that stay taken for a while after
-- completion, times that Python can read, and the upkeep of channels.

-- waiting  waits until other jobs have ended (job_dependencies)
-- The value cannot be used in this transaction. So the indexes below say "none of the others".
alter type {schema}.job_status add value if not exists 'waiting';

-- The lock on jobs comes first, and no other table is locked: takers use jobs before channels, and
-- channels before jobs.
alter table {schema}.jobs
  -- Years 1 to 9999, whatever the time zone of a session: others cannot be read into a datetime.
  add constraint jobs_run_at_in_years_1_to_9999 check (
    run_at between '0001-01-02 00:00+00'::timestamptz and '9999-12-30 00:00+00'::timestamptz
  ) not valid,
  -- Somebody waits for its end: whoever ends it says so in job_endings.
  add column has_followers boolean not null default false,
  -- For how long after its completion no other job of the channel may have its unique key.
  add column unique_for interval,
  add constraint jobs_unique_for check (unique_for > interval '0');
update {schema}.jobs
set run_at = least(greatest(run_at, '0001-01-02 00:00+00'), '9999-12-30 00:00+00')
where run_at not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00';

-- A completed job with unique_for has its key, too; until a put finds that its time is over.
drop index {schema}.jobs_unique_key;
create unique index jobs_unique_key on {schema}.jobs (channel, unique_key)
where unique_key is not null
  and (status in ('ready', 'scheduled', 'running') or status = 'done' and unique_for is not null);
-- A waiting job may have the key of a job that is not finished: it waits for that one, too.
create unique index jobs_waiting_key on {schema}.jobs (channel, unique_key)
where unique_key is not null
  and status not in ('ready', 'scheduled', 'running', 'dead', 'done', 'cancelled');
create index jobs_waiting on {schema}.jobs (channel)
where status not in ('ready', 'scheduled', 'running', 'dead', 'done', 'cancelled');
create index jobs_dead_since on {schema}.jobs (channel, finished_at) where status = 'dead';

-- Which jobs a waiting job still waits for. A row is written by the put, and afterwards changed only
-- under the lock of the waiting job's row. `is_linked`: the job that is waited for knows it
-- (has_followers). No foreign keys: they would make every deletion of a job slower.
create table {schema}.job_dependencies (
  job_id bigint not null,
  after_id bigint not null,
  is_linked boolean not null default false,
  on_dead text collate "C" not null,
  constraint job_dependencies_pkey primary key (job_id, after_id),
  constraint job_dependencies_on_dead check (on_dead in ('wait', 'cancel', 'run'))
);
create index job_dependencies_after on {schema}.job_dependencies (after_id);
create index job_dependencies_not_linked on {schema}.job_dependencies (job_id) where not is_linked;

-- Ends of jobs that others wait for, until these have been told (functions/tend_followers.sql).
create table {schema}.job_endings (
  number bigint generated always as identity,
  job_id bigint not null,
  ending text collate "C" not null,
  constraint job_endings_pkey primary key (number),
  constraint job_endings_ending check (ending in ('done', 'dead', 'cancelled', 'dropped'))
);

-- What is put instead of a waiting job: a trigger replaces that one (functions/replace_job.sql).
-- A view, so that a role that puts jobs can replace them by their key, and cannot change others.
create view {schema}.job_replacements as
select
  j.id, j.channel, j.unique_key, j.content, j.run_at, j.priority, j.max_attempts, j.state,
  j.keep_for, j.unique_for
from {schema}.jobs as j
where false;

-- How channels are kept up; a name, or a prefix and a star. Not columns of channels: that table has
-- the limits, which takers lock, and a migration must not lock it together with jobs.
-- keep_dead_for: dead jobs are deleted after that time; null: never.
-- ageing: a ready job is moved one priority up each time it has waited so long; null: never.
create table {schema}.channel_upkeep (
  name text collate "C" not null,
  keep_dead_for interval,
  ageing interval,
  next_ageing_at timestamptz not null default '-infinity',
  constraint channel_upkeep_pkey primary key (name),
  constraint channel_upkeep_name_length check (char_length(name) between 1 and 255),
  constraint channel_upkeep_keep_dead_for check (keep_dead_for > interval '0'),
  constraint channel_upkeep_ageing check (ageing > interval '0')
);
