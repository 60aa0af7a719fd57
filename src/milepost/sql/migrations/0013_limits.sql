-- Limits for families of channels, rates, and a cheaper max_size (docs/decisions/0023).

-- A row whose name ends in a star is the policy of a family: of every channel that begins with what
-- is before the star, unless the channel has a policy of its own or a longer family. A channel of a
-- family gets a row when it is first taken from (is_policy = false): `family` names the row that has
-- its limits, and its own row is its lock and its state (next_release_at, rate_at, oldest_running).
--
-- max_concurrency_total: over all channels of a family together. A rate: rate_count jobs in
-- rate_period, at most rate_burst of them without a pause. rate_at: from when on the channel has its
-- whole burst again.
alter table {schema}.channels
  add column is_policy boolean not null default true,
  add column family text collate "C",
  add column max_concurrency_total integer,
  add column rate_count integer,
  add column rate_period interval,
  add column rate_burst integer,
  add column rate_at timestamptz not null default '-infinity',
  add constraint channels_max_concurrency_total check (
    max_concurrency_total is null or max_concurrency_total > 0 and right(name, 1) = '*'
  ),
  add constraint channels_rate check (
    (rate_count is null) = (rate_period is null) and (rate_count is null) = (rate_burst is null)
    and rate_count > 0 and rate_burst > 0 and rate_period > interval '0'
  ),
  add constraint channels_family check (
    family is null or right(family, 1) = '*' and not is_policy
  ),
  add constraint channels_is_policy check (
    is_policy or right(name, 1) <> '*' and max_concurrency is null and release_interval is null
    and max_size is null and rate_count is null
  );

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
