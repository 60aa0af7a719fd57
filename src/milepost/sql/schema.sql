-- The schema of a new database: types, tables, indexes and policies. It is installed as migration 1.
-- Once a release is out it is final, and tables change by migrations (migrations/README.md). The
-- functions are in functions/, the privileges in grants/.
--
-- Rows that are updated all the time are in tables with fillfactor = 50, and no index mentions what
-- changes: the updates stay within their page (HOT).

-- Checked first: CREATE SCHEMA IF NOT EXISTS needs the privilege to create schemas, even if this
-- one exists.
do $do$
begin
  if to_regnamespace('{schema}') is null then
    create schema {schema};
  end if;
end;
$do$;

-- Which migrations were applied, this file first. Code that knows others than these refuses to
-- migrate.
create table {schema}.migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
);

--
-- The log: an append-only table of messages in one total order.
--

-- Where a message stands in the total order. Every reader compares the pair, so that only
-- this room knows which of the two orders a log was created with.
create type {schema}.position as (
  transaction_id bigint,
  "position" bigint
);

-- A slice of the hash space of message keys: it holds the keys whose hash & mask = id.
create type {schema}.segment as (
  id integer,
  mask integer
);

-- One row: what was decided when the log was created, what has happened to it as a whole, and which
-- code may run on it.
--
-- Where it is: the cluster, its timeline (a promoted standby or a recovery to a point in time begins a
-- new one), the database and the table. A dump carries the row along, which is how a restored or copied
-- log is recognised (functions/moved_from.sql). Null is unknown, until the next append or rebase: a log
-- that has given no position has no place yet, so copies of an empty one are independent.
--
-- removed_*: every position up to this one may be gone. A transaction that deletes messages raises
-- it, so that a reader that begins below it is refused instead of being given less than there was.
--
-- oldest_code: the last migration that code must know to run on this schema (docs/upgrading.md).
-- functions_digest: of the functions that were installed last.
create table {schema}.log (
  log_order text not null check (log_order in ('append', 'transaction')),
  system_identifier bigint,
  timeline integer,
  database_oid oid,
  table_oid oid,
  created_at timestamptz not null default clock_timestamp(),
  removed_transaction_id bigint not null default 0,
  removed_position bigint not null default 0,
  oldest_code integer not null default 0,
  functions_digest text,
  is_only boolean primary key default true check (is_only)
);

insert into {schema}.log (log_order) values ('{order}');

-- data is json, not jsonb: kept as written and read 2.3 times faster (docs/decisions/0002).
-- The sequence must not cache: the horizon trusts that a later draw is a higher position.
create table {schema}.messages (
  "position" bigint generated always as identity (cache 1),
  transaction_id bigint not null,
  id uuid not null,
  topic text not null default 'default',
  key text,
  type text not null,
  data json not null,
  metadata json not null default '{}',
  recorded_at timestamptz not null default clock_timestamp(),
  constraint messages_pkey primary key (transaction_id, "position"),
  constraint messages_topic_length check (char_length(topic) between 1 and 255),
  constraint messages_key_length check (char_length(key) between 1 and 1024),
  constraint messages_type_length check (char_length(type) between 1 and 255)
);

-- Serves 'start from a time' alone. BRIN: time follows the table's order closely, so a few
-- pages describe millions of rows and an append pays next to nothing for it.
create index messages_recorded_at on {schema}.messages
using brin (recorded_at) with (pages_per_range = 64, autosummarize = on);

-- What retention has removed lately, without its content: an append with a condition, or with
-- `once`, must know of a message for a while after it has left the table (docs/decisions/0044).
-- Filled only in a log with one of the optional indexes (remember_removed.sql).
create table {schema}.removed_messages (
  transaction_id bigint not null,
  "position" bigint not null,
  id uuid not null,
  key text,
  type text not null,
  removed_at timestamptz not null default clock_timestamp(),
  constraint removed_messages_pkey primary key (transaction_id, "position")
);

create index removed_messages_id on {schema}.removed_messages (id);

create index removed_messages_key on {schema}.removed_messages (key, transaction_id, "position")
where key is not null;

create index removed_messages_removed_at on {schema}.removed_messages (removed_at);

-- After a restore or a failover: positions after the first, up to the second, may have been given to
-- messages that are lost. rebase() notes them and gives none of them again; whoever comes with one of
-- them has seen what is lost, and is told (functions/refuse_lost.sql).
create table {schema}.lost_positions (
  after_transaction_id bigint not null,
  after_position bigint not null,
  up_to_transaction_id bigint not null,
  up_to_position bigint not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (after_transaction_id, after_position)
);

-- In transaction order: what is added to this cluster's transaction ids. 0 at first; rebase()
-- replaces the function with a higher value once the log was restored into a cluster whose ids
-- are lower. State, hence here; a function and not a column, so that the planner folds it into
-- every append.
do $do$
begin
  if '{order}' = 'transaction' then
    create function {schema}.transaction_base() returns bigint
    language sql immutable parallel safe
    return 0::bigint;
  end if;
end;
$do$;

--
-- Retention and the archive: old messages in Parquet files.
--

-- What is kept in the log. Without a row, everything is. `keep`: messages that are younger stay;
-- `keep_messages`: so many of the newest ones stay. Without either, nothing is removed.
--
-- `archive`: where old messages go before they are removed, if anywhere; never with credentials.
-- `archive_after`: messages that are older are archived, also while they are kept here; null: what
-- is not kept is archived. `removal_at`: when a process last began to remove as its duty; others leave
-- it to that one for a while. `requested_...`: up to here somebody waits for the archive, so the
-- archiver does not wait for more messages (functions/request_archiving.sql).
create table {schema}.retention (
  is_only boolean primary key default true check (is_only),
  keep interval,
  keep_messages bigint,
  changed_at timestamptz not null default clock_timestamp(),
  archive text,
  archive_after interval,
  removal_at timestamptz,
  requested_transaction_id bigint,
  requested_position bigint,
  constraint retention_keeps
    check (keep is not null or keep_messages is not null or archive is not null),
  constraint retention_keep check (keep >= interval '0'),
  constraint retention_keep_messages check (keep_messages >= 0),
  constraint retention_archive_after
    check (archive_after is null or (archive is not null and archive_after >= interval '0'))
);

-- The manifest: which file has which range of the log, after one position, up to and including
-- another. A range below the horizon is final, so a file is final. The table is the truth; what else
-- is in the directory does not count.
--
-- The ranges are one chain. Each begins where another ends (the foreign key), no two begin or end
-- at the same position, and one is the first. A range ends after it begins, so there is no circle.
-- So they are contiguous and never overlap. The foreign key is checked at commit: several files may
-- be replaced by one that has the same range.
create table {schema}.archive (
  after_transaction_id bigint not null,
  after_position bigint not null,
  last_transaction_id bigint not null,
  last_position bigint not null,
  location text not null,
  name text not null,
  messages bigint not null,
  bytes bigint not null,
  sha256 text not null,
  -- Null: the file has a time that is not in the years 1 to 9999, or no messages.
  recorded_from timestamptz,
  recorded_to timestamptz,
  -- Null: too many to list.
  topics text[],
  types text[],
  format_version integer not null,
  has_content boolean not null default false,
  epoch bigint not null,
  written_at timestamptz not null default clock_timestamp(),
  is_first boolean not null default false,
  previous_transaction_id bigint generated always as (
    case when not is_first then after_transaction_id end
  ) stored,
  previous_position bigint generated always as (
    case when not is_first then after_position end
  ) stored,
  constraint archive_pkey primary key (last_transaction_id, last_position),
  constraint archive_after_once unique (after_transaction_id, after_position),
  constraint archive_is_a_range check (
    (after_transaction_id, after_position) < (last_transaction_id, last_position)
  ),
  constraint archive_is_contiguous foreign key (previous_transaction_id, previous_position)
    references {schema}.archive (last_transaction_id, last_position)
    deferrable initially deferred,
  constraint archive_messages check (messages >= 0)
);

create unique index archive_first on {schema}.archive (is_first) where is_first;

-- Files that others have replaced in the manifest. They stay for a while, because readers may hold their
-- names, and are removed by a sweep.
create table {schema}.archive_replaced (
  name text not null,
  location text not null,
  replaced_at timestamptz not null default clock_timestamp(),
  constraint archive_replaced_pkey primary key (name)
);

--
-- Processors: where each stands, how it fares, and what it had to set aside.
--

-- The last position that a processor (or one segment of it) has durably processed.
-- Updated at every batch.
create table {schema}.checkpoints (
  processor text not null,
  version integer not null,
  segment integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  epoch bigint not null default 0,
  owner text,
  updated_at timestamptz not null default clock_timestamp(),
  constraint checkpoints_pkey primary key (processor, version, segment),
  constraint checkpoints_processor_length check (char_length(processor) between 1 and 255)
) with (fillfactor = 50);

-- What a processor reports of itself and what its operators ask of it. Reported at a change of
-- state and every few seconds of work, never in the transaction of a batch.
--
-- segments: how many it has; null: it is not segmented. mode: how its checkpoints move (auto,
-- deferred). has_reset_handlers: a reset needs the application, because that holds reset handlers.
create table {schema}.processors (
  name text not null,
  version integer not null,
  topics text[],
  types text[],
  is_paused boolean not null default false,
  state text not null default 'stopped',
  owner text,
  handled bigint not null default 0,
  rate double precision not null default 0,
  last_error text,
  last_error_at timestamptz,
  reported_at timestamptz not null default clock_timestamp(),
  segments integer,
  mode text,
  has_reset_handlers boolean not null default false,
  constraint processors_pkey primary key (name, version)
) with (fillfactor = 50);

-- A slice of a processor's keys, those whose hash & mask = id, and the instance that has it now.
-- Claims live here and not with the checkpoints: an exactly-once handler holds the lock of its
-- checkpoint's row while it runs, and extending a claim must not wait for that. A claim raises the
-- epoch here and there, which is what fences a stale owner. Extended at every beat.
--
-- handled_*: up to where the owner of this epoch has given messages to its handlers; written with its
-- claims, for operators. Of a former epoch it means nothing: the next owner starts at the checkpoint.
create table {schema}.segments (
  processor text not null,
  version integer not null,
  id integer not null,
  mask integer not null,
  epoch bigint not null default 0,
  owner text,
  claimed_until timestamptz,
  wanted_by text,
  wanted_until timestamptz,
  last_error text,
  last_error_at timestamptz,
  handled_epoch bigint,
  handled_transaction_id bigint,
  handled_position bigint,
  constraint segments_pkey primary key (processor, version, id),
  -- A mask is a row of ones, and an id lies below it.
  constraint segments_mask check (mask >= 0 and mask & (mask::bigint + 1) = 0),
  constraint segments_id check (id & mask = id),
  constraint segments_claim check ((owner is null) = (claimed_until is null))
) with (fillfactor = 50);

-- After a merge: up to where the keys of (id, mask) were handled before it, beyond the lower
-- checkpoint that the merged segment goes on from. What lies at or below is not delivered again.
-- True whoever owns the segment, until a reset, which removes them.
create table {schema}.segment_floors (
  processor text not null,
  version integer not null,
  segment integer not null,
  id integer not null,
  mask integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  constraint segment_floors_pkey primary key (processor, version, segment, id, mask)
);

-- The living instances of a processor: how they find each other.
--
-- at_most: how many segments it takes; null: as many as its fair share. Set while it leaves segments
-- to others because it gave them back with an error.
-- claim_seconds: how long its claims last. Operators claim for as long.
create table {schema}.instances (
  processor text not null,
  version integer not null,
  owner text not null,
  alive_until timestamptz not null,
  started_at timestamptz not null default clock_timestamp(),
  rate double precision not null default 0,
  at_most integer,
  claim_seconds double precision,
  constraint instances_pkey primary key (processor, version, owner)
) with (fillfactor = 50);

-- A key whose messages are set aside. Who adds letters to it holds the row FOR KEY SHARE until they
-- are committed; a retry holds it FOR NO KEY UPDATE, which does not disturb that; what removes the
-- row takes it FOR UPDATE, and looks for letters only then.
-- The digest is the key's SHA-256: a key may be longer than an index entry.
create table {schema}.parked_keys (
  id bigint generated always as identity,
  processor text not null,
  version integer not null,
  digest bytea not null,
  key text not null,
  parked_at timestamptz not null default clock_timestamp(),
  retry_requested_at timestamptz,
  constraint parked_keys_pkey primary key (id),
  constraint parked_keys_once unique (processor, version, digest)
);

create index parked_keys_requested on {schema}.parked_keys (processor, version)
where retry_requested_at is not null;

-- Messages that a processor gave up on. A copy, so that it outlives the log's retention.
--
-- is_parked: set aside by a processor that parks; such letters count towards its limit.
-- parked_id: in order behind others of its key; null where a message has no key.
-- is_replayed: it was delivered again after a reset, and its retry says so too.
create table {schema}.dead_letters (
  id bigint generated always as identity,
  processor text not null,
  version integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  message_id uuid not null,
  topic text not null,
  key text,
  type text not null,
  data json not null,
  metadata json not null,
  recorded_at timestamptz not null,
  error text not null,
  traceback text not null,
  attempts integer not null,
  failed_at timestamptz not null default clock_timestamp(),
  retry_requested_at timestamptz,
  is_parked boolean not null default false,
  parked_id bigint references {schema}.parked_keys (id),
  is_replayed boolean not null default false,
  constraint dead_letters_pkey primary key (id),
  constraint dead_letters_once unique (processor, version, transaction_id, "position")
);

-- The letters of a key, in order.
create index dead_letters_parked
on {schema}.dead_letters (parked_id, transaction_id, "position")
where parked_id is not null;

-- How many a processor has.
create index dead_letters_counted on {schema}.dead_letters (processor, version) where is_parked;

-- The keys whose hash & mask = id had been handled up to this position when the processor was
-- reset. A fact about keys, not about segments: splitting and merging leave it true. Removed by a
-- later reset, once every checkpoint is past it.
create table {schema}.replays (
  processor text not null,
  version integer not null,
  id integer not null,
  mask integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  constraint replays_pkey primary key (processor, version, id, mask)
);

--
-- The queue: jobs in channels.
--

-- ready      may be taken
-- scheduled  waits for its run_at
-- waiting    waits until other jobs have ended (job_dependencies)
-- running    taken: it holds a slot of its channel until it is completed, deferred or given up
-- dead       failed too often; waits for somebody to retry or drop it
-- done, cancelled  finished, and kept for a while because that was asked for
create type {schema}.job_status as enum (
  'ready', 'scheduled', 'running', 'dead', 'done', 'cancelled', 'waiting'
);

-- What became of a job that somebody wanted to change:
-- done       it was changed as asked
-- stale      it is not this attempt's any more: somebody else holds it, or it waits again
-- gone       there is no such job
-- cancelled  (heartbeats and cancel) it runs, and was asked to stop
create type {schema}.verdict as enum ('done', 'stale', 'gone', 'cancelled');

-- A job is one row until it is finished. `attempt` grows every time it is taken and is the fence:
-- whoever changes a running job must name it. `failures` counts the attempts that ended badly,
-- and only those, so that a job may be deferred for ever.
--
-- How many jobs of a channel run is not kept anywhere: it is counted from the rows, so that no
-- slot can leak (docs/decisions/0008). `taken` comes from a sequence and orders what runs.
--
-- `token`: together with the attempt, the fence where a crash of the server may forget a take: a
-- random number of the take that holds the job. After a forgotten take the next one counts up to the
-- same attempt, but it has another token. Null where the take was durable, and its attempt says
-- enough.
--
-- A worker takes jobs ahead of its handlers, so "running" does not mean that a handler has begun
-- (docs/decisions/0025). `is_begun`: the running attempt has begun, or must be counted as if it had:
-- only such an attempt is a failure when its lock expires. `is_begin_awaited`: its channel has a
-- release_interval, and releases nothing more until this attempt has begun. `crashes`: how many
-- attempts in a row ended with their lock while the job may have been running; from 2 on, it runs
-- alone. None is in an index: heartbeats stay within their page.
--
-- `has_followers`: somebody waits for its end, so a row in job_endings says when it ends.
-- `unique_for`: for how long after its completion no other job of the channel may have its unique key.
-- `trace`: the span in which it was put: its W3C traceparent and, behind a space, its tracestate. Null
-- for most. Not in the content, which is the user's, nor in the state, which handlers replace.
create table {schema}.jobs (
  id bigint generated by default as identity,
  run_at timestamptz not null default clock_timestamp(),
  locked_until timestamptz,
  taken bigint,
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  kept_until timestamptz,
  attempt integer not null default 0,
  failures integer not null default 0,
  max_attempts integer not null default 25,
  status {schema}.job_status not null default 'ready',
  priority smallint not null default 0,
  is_cancelled boolean not null default false,
  channel text collate "C" not null,
  content bytea not null,
  state bytea,
  unique_key text collate "C",
  keep_for interval,
  progress bytea,
  result bytea,
  last_error text,
  token bigint,
  is_begun boolean not null default false,
  is_begin_awaited boolean not null default false,
  crashes smallint not null default 0,
  has_followers boolean not null default false,
  unique_for interval,
  trace text,
  constraint jobs_pkey primary key (id),
  constraint jobs_channel_length check (char_length(channel) between 1 and 255),
  constraint jobs_unique_key_length check (char_length(unique_key) between 1 and 1024),
  constraint jobs_running_is_locked check (
    (status = 'running') = (locked_until is not null) and (status <> 'running' or taken is not null)
  ),
  constraint jobs_max_attempts check (max_attempts > 0),
  constraint jobs_keep_for check (keep_for > interval '0'),
  constraint jobs_unique_for check (unique_for > interval '0'),
  -- Whatever the time zone of a session: others cannot be read into a datetime of Python.
  constraint jobs_run_at_in_years_1_to_9999 check (
    run_at between '0001-01-02 00:00+00'::timestamptz and '9999-12-30 00:00+00'::timestamptz
  )
);

-- The order in which a channel's jobs are taken; also how the channels that have any are found,
-- one index descent each. Lower priorities come first.
create index jobs_ready on {schema}.jobs (channel, priority, run_at, id) where status = 'ready';
create index jobs_scheduled on {schema}.jobs (run_at) where status = 'scheduled';
-- Also for the oldest scheduled job of each channel, and how many are overdue (metrics_queue).
create index jobs_scheduled_channel on {schema}.jobs (channel, run_at) where status = 'scheduled';
create index jobs_waiting on {schema}.jobs (channel) where status = 'waiting';
-- Not on locked_until: a heartbeat then stays within its page (HOT).
create index jobs_running on {schema}.jobs (channel, taken) where status = 'running';
create index jobs_dead on {schema}.jobs (channel, id) where status = 'dead';
create index jobs_dead_since on {schema}.jobs (channel, finished_at) where status = 'dead';
create index jobs_finished on {schema}.jobs (kept_until) where status in ('done', 'cancelled');
-- A completed job with unique_for has its key, too; until a put finds that its time is over.
create unique index jobs_unique_key on {schema}.jobs (channel, unique_key)
where unique_key is not null
  and (status in ('ready', 'scheduled', 'running') or status = 'done' and unique_for is not null);
-- A waiting job may have the key of a job that is not finished: it waits for that one, too.
create unique index jobs_waiting_key on {schema}.jobs (channel, unique_key)
where unique_key is not null and status = 'waiting';

create sequence {schema}.jobs_taken_seq;

-- When the duties of take() are due next, in milliseconds since 1970. Sequences, because they
-- change in place and outside of transactions: a row would be locked and bloat.
create sequence {schema}.jobs_promote_at minvalue 0 start 0;
create sequence {schema}.jobs_recover_at minvalue 0 start 0;

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

-- The policies of channels; a channel without a row has none. Nobody who puts a job touches it.
-- `oldest_running`: no running job of the channel has a lower `taken`. A hint that spares the
-- count the dead index entries that a long snapshot keeps.
--
-- A row whose name ends in a star is the policy of a family: of every channel that begins with what
-- is before the star, unless the channel has a policy of its own or a longer family. A channel of a
-- family gets a row when it is first taken from (is_policy = false): `family` names the row that has
-- its limits, and its own row is its lock and its state (next_release_at, rate_at, oldest_running).
--
-- max_concurrency_total: over all channels of a family together. A rate: rate_count jobs in
-- rate_period, at most rate_burst of them without a pause. rate_at: from when on the channel has its
-- whole burst again.
create table {schema}.channels (
  name text collate "C" not null,
  max_concurrency integer,
  release_interval interval,
  max_size integer,
  is_paused boolean not null default false,
  next_release_at timestamptz not null default '-infinity',
  oldest_running bigint not null default 0,
  updated_at timestamptz not null default clock_timestamp(),
  is_policy boolean not null default true,
  family text collate "C",
  max_concurrency_total integer,
  rate_count integer,
  rate_period interval,
  rate_burst integer,
  rate_at timestamptz not null default '-infinity',
  constraint channels_pkey primary key (name),
  constraint channels_name_length check (char_length(name) between 1 and 255),
  constraint channels_max_concurrency check (max_concurrency > 0),
  constraint channels_release_interval check (release_interval > interval '0'),
  constraint channels_max_size check (max_size > 0),
  constraint channels_max_concurrency_total check (
    max_concurrency_total is null or max_concurrency_total > 0 and right(name, 1) = '*'
  ),
  constraint channels_rate check (
    (rate_count is null) = (rate_period is null) and (rate_count is null) = (rate_burst is null)
    and rate_count > 0 and rate_burst > 0 and rate_period > interval '0'
  ),
  constraint channels_family check (
    family is null or right(family, 1) = '*' and not is_policy
  ),
  constraint channels_is_policy check (
    is_policy or right(name, 1) <> '*' and max_concurrency is null and release_interval is null
    and max_size is null and rate_count is null
  )
) with (fillfactor = 50);

-- Whether there is any family, or one with a max_size, is asked at every take and at some puts:
-- usually there is none. Which channels wait for a time is asked by every idle worker.
create index channels_families on {schema}.channels (name) where right(name, 1) = '*';
create index channels_sized_families on {schema}.channels (name)
where right(name, 1) = '*' and max_size is not null;
create index channels_timed on {schema}.channels (name)
where release_interval is not null or rate_count is not null;
create index channels_members on {schema}.channels (family) where family is not null;

-- How many unfinished and dead jobs a channel with a max_size had when they were last counted, and
-- the last job id that had been drawn before that. So it has at most `jobs` and as many as were
-- drawn since. Rows are only added by those who put, so that none of them waits for another.
create table {schema}.channel_sizes (
  channel text collate "C" not null,
  last_id bigint not null,
  jobs bigint not null,
  counted_at timestamptz not null default clock_timestamp()
);

-- Not unique: who adds an entry to a unique index may have to wait.
create index channel_sizes_newest on {schema}.channel_sizes (channel, last_id);

-- How channels are kept up; a name, or a prefix and a star. Not columns of channels: that table has
-- the limits, which takers lock.
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

-- What workers say of their speed now and then, each in rows of its own. Nothing depends on it but
-- what operators are shown.
create table {schema}.channel_rates (
  channel text collate "C" not null,
  owner text collate "C" not null,
  done_per_second double precision not null,
  reported_at timestamptz not null,
  constraint channel_rates_pkey primary key (channel, owner)
) with (fillfactor = 50);

-- Schedules (docs/decisions/0022).
-- When: every so long, counted from begun_at, or at the times of a cron expression. next_at is the
-- next tick; who moves it has put the job of that tick. What: the arguments of put_bytes().
-- While ticks fail, next_at stays and retry_at moves. last_seen_at: when an application that has
-- the schedule in its code last ran.
create table {schema}.schedules (
  name text collate "C" not null,
  every interval,
  cron text,
  timezone text,
  begun_at timestamptz not null,
  next_at timestamptz not null,
  channel text collate "C" not null,
  content bytea not null,
  run_at timestamptz,
  delay interval,
  priority integer not null default 0,
  max_attempts integer not null default 25,
  unique_key text collate "C",
  state bytea,
  keep_for interval,
  replace boolean not null default false,
  unique_for interval,
  is_paused boolean not null default false,
  last_tick_at timestamptz,
  last_job_id bigint,
  failures integer not null default 0,
  retry_at timestamptz,
  last_error text,
  registered_by text,
  registered_at timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz,
  constraint schedules_pkey primary key (name),
  constraint schedules_name_length check (char_length(name) between 1 and 1024),
  constraint schedules_when check (
    (every is null) <> (cron is null) and (cron is null) = (timezone is null)
  ),
  constraint schedules_every check (every > interval '0'),
  -- What Python can read: one row that it cannot read would stop all the others.
  constraint schedules_times check (
    begun_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00'
    and next_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00'
    and (retry_at is null or retry_at between '1900-01-01 00:00+00' and '9000-01-01 00:00+00')
  )
) with (fillfactor = 50);

create index schedules_next on {schema}.schedules (next_at) where not is_paused;

--
--
-- Pipelines: processors whose work is done by Spark. Their checkpoints are in `checkpoints`.
--
--

-- What a pipeline reports of itself and what its operators ask of it, a row for each version of
-- its target. Written at a change of state and about once a second of work, never in the
-- transaction of a batch; but for spark_batch, see note_spark_batch.sql.
--
-- A version is a table that was filled, with a checkpoint; `target` is the view that shows the table
-- of the active one. `code_version` is that of the code which fills it. A version that has been
-- active has a `built_at`; one that has none is being filled by a rebuild.
--
-- rejected: the view of the rows that were set aside, in the schema of the target, or in this one if
-- there is no target. Each version has a table of its own, whose name ends in __vN.
-- spark_page: where the pages of the Spark application are that runs it, for a link.
create table {schema}.pipelines (
  name text not null,
  version integer not null,
  topics text[],
  types text[],
  code_version integer not null,
  sink text not null,
  target_schema text,
  target text,
  target_table text,
  is_active boolean not null default false,
  built_at timestamptz,
  is_paused boolean not null default false,
  hold_until timestamptz,
  state text not null default 'stopped',
  owner text,
  spark_run text,
  spark_batch bigint,
  batches bigint not null default 0,
  rows bigint not null default 0,
  batches_per_second double precision not null default 0,
  rows_per_second double precision not null default 0,
  phases_ms jsonb,
  last_error text,
  last_error_at timestamptz,
  started_at timestamptz,
  reported_at timestamptz not null default clock_timestamp(),
  rejected text,
  spark_page text,
  constraint pipelines_pkey primary key (name, version),
  constraint pipelines_name_length check (char_length(name) between 1 and 255)
) with (fillfactor = 50);

create unique index pipelines_active on {schema}.pipelines (name) where is_active;

-- How many rows of the output have satisfied an expectation, and how many have violated it. Updated
-- in the transaction of each batch, so that each row counts once, whatever is killed.
create table {schema}.pipeline_expectations (
  pipeline text not null,
  version integer not null,
  expectation text not null,
  passed bigint not null,
  violated bigint not null,
  constraint pipeline_expectations_pkey primary key (pipeline, version, expectation)
) with (fillfactor = 50);

-- Writes from Spark jobs, with format("milepost"): one row for each streaming query, which stays, and
-- one for each batch write, while it runs.
--
-- `query` is the id of the streaming query, which Spark keeps in its checkpoint directory: a new
-- directory has a new id. A batch write has an id of its own. `batch` is the last batch that was
-- written, with so many rows; null: none yet. It is the fence against a batch that Spark repeats.
-- `role`: whose write it is.
-- Tasks copy their rows into the table `staging`. It is dropped once nobody has used it for a while.
create table {schema}.spark_writes (
  query uuid not null,
  is_stream boolean not null,
  staging text not null,
  batch bigint,
  rows bigint,
  used_at timestamptz not null default clock_timestamp(),
  role name not null,
  constraint spark_writes_pkey primary key (query),
  constraint spark_writes_rows check ((batch is null) = (rows is null))
);

--
-- What the dashboard shows and records.
--

-- One row for each action that succeeded, in its transaction where it has one. `who` is what the
-- dashboard knows of the operator. `arguments` are the fields of the form: names, ids and limits, no
-- content of a message or a job.
create table {schema}.audit (
  id bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  who text not null,
  action text not null,
  subject text not null,
  arguments jsonb not null,
  constraint audit_pkey primary key (id)
);

--
-- What a role may do with rows that are not its own (docs/decisions/0020).
--

-- The policies below need it. Replaced by the function of that name, in the same transaction.
create function {schema}.is_pipeline(name text, version integer) returns boolean
language plpgsql stable as $$
begin
  return false;
end;
$$;

-- A role that runs pipelines changes what is theirs. One that runs or operates processors changes all
-- of it; it is known by its privilege to change their segments, which needs no look at a row.
alter table {schema}.checkpoints enable row level security;
create policy seen on {schema}.checkpoints for select using (true);
create policy changed on {schema}.checkpoints using (
  has_any_column_privilege('{schema}.segments'::regclass::oid, 'update')
  or {schema}.is_pipeline(processor, version)
);
alter table {schema}.dead_letters enable row level security;
create policy seen on {schema}.dead_letters for select using (true);
create policy changed on {schema}.dead_letters using (
  has_any_column_privilege('{schema}.segments'::regclass::oid, 'update')
  or {schema}.is_pipeline(processor, version)
);
