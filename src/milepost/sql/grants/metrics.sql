-- metrics: status, doctor and the listings of processors, segments, channels and pipelines. No data
-- or metadata of messages, no content of jobs. What other users' sessions do, and with it who holds
-- the horizon back for how long, is seen by members of pg_read_all_stats alone, which also shows the
-- text of their queries. An administrator may decide to add:
--   grant pg_read_all_stats to ROLE;
grant select (transaction_id, "position", topic, key, type, recorded_at)
  on {schema}.messages to {role};
grant select on
  {schema}.processors, {schema}.checkpoints, {schema}.segments, {schema}.instances, {schema}.replays,
  {schema}.pipelines, {schema}.channels, {schema}.channel_rates
  to {role};
grant select (processor, version) on {schema}.dead_letters, {schema}.parked_keys to {role};
grant select (id, channel, status, run_at, locked_until, taken, unique_key) on {schema}.jobs to {role};
-- How much is left of them.
grant select on all sequences in schema {schema} to {role};
