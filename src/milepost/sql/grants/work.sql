-- work: run workers and schedules. In channels, only the columns that count releases and running
-- jobs, not the limits.
grant select, delete on {schema}.jobs to {role};
grant update (
  run_at, locked_until, taken, finished_at, kept_until, attempt, failures, status, is_cancelled,
  state, progress, result, last_error, token, priority, has_followers, unique_for, is_begun,
  is_begin_awaited, crashes
) on {schema}.jobs to {role};
grant select, insert, update, delete on {schema}.job_dependencies, {schema}.job_endings to {role};
grant select, update (next_release_at, rate_at, oldest_running) on {schema}.channels to {role};
grant select, update (next_ageing_at) on {schema}.channel_upkeep to {role};
grant select (channel, last_id, counted_at), delete on {schema}.channel_sizes to {role};
grant select, insert, update (done_per_second, reported_at), delete
  on {schema}.channel_rates to {role};
grant usage on sequence {schema}.jobs_taken_seq to {role};
grant select on sequence {schema}.jobs_id_seq to {role};
grant select, update on sequence {schema}.jobs_promote_at, {schema}.jobs_recover_at to {role};
-- Not is_paused, which operators set.
grant select, insert on {schema}.schedules to {role};
grant update (
  every, cron, timezone, begun_at, next_at, channel, content, run_at, delay, priority, max_attempts,
  unique_key, state, keep_for, replace, unique_for, last_tick_at, last_job_id, failures, retry_at, last_error,
  registered_by, registered_at, last_seen_at
) on {schema}.schedules to {role};
