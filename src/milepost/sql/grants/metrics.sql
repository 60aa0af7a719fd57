-- metrics: status, doctor and the listings of processors, segments, channels, schedules and pipelines. No
-- data or metadata of messages, no content of jobs. Only members of pg_read_all_stats see what the
-- sessions of other users do, and so which session holds the horizon back and for how long. They
-- also see the text of the queries of those sessions. An administrator may decide to add:
--   grant pg_read_all_stats to ROLE;
grant select (transaction_id, "position", topic, key, type, recorded_at)
  on {schema}.messages to {role};
grant select (
  after_transaction_id, after_position, last_transaction_id, last_position, messages, recorded_from,
  recorded_to, topics, types
) on {schema}.archive to {role};
grant select on
  {schema}.processors, {schema}.checkpoints, {schema}.segments, {schema}.instances, {schema}.replays,
  {schema}.pipelines, {schema}.pipeline_expectations, {schema}.channels, {schema}.channel_rates, {schema}.channel_upkeep,
  {schema}.job_dependencies, {schema}.job_endings, {schema}.retention, {schema}.archive
  to {role};
grant select (processor, version) on {schema}.dead_letters, {schema}.parked_keys to {role};
grant select (id, channel, status, priority, run_at, locked_until, taken, unique_key, kept_until, xmax) on {schema}.jobs to {role};
grant select (
  name, every, cron, timezone, begun_at, next_at, channel, is_paused, last_tick_at, last_job_id,
  failures, retry_at, last_error, registered_by, registered_at, last_seen_at
) on {schema}.schedules to {role};
-- To see how much of each sequence is used.
grant select on all sequences in schema {schema} to {role};
