-- work: run workers and schedules. Of channels only what counts their releases, not their limits.
-- A changed schedule replaces its content.
grant select, delete on {schema}.jobs to {role};
grant update (
  run_at, locked_until, taken, finished_at, kept_until, attempt, failures, status, is_cancelled,
  content, state, progress, result, last_error, token
) on {schema}.jobs to {role};
grant select, update (next_release_at, oldest_running) on {schema}.channels to {role};
grant select, insert, update (done_per_second, reported_at), delete
  on {schema}.channel_rates to {role};
grant usage on sequence {schema}.jobs_taken_seq to {role};
grant select, update on sequence {schema}.jobs_promote_at, {schema}.jobs_recover_at to {role};
