-- put: add jobs, and wait for their results. Of other jobs, the role sees whether a unique key is
-- taken, whether a channel is full, and how a job ended: its status, result and last error. It can
-- replace a job that has not begun, if it knows the job's unique key, and free a key whose time is
-- over.
grant insert (
  id, channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for,
  unique_for, trace
) on {schema}.jobs to {role};
grant select (
  id, channel, unique_key, status, keep_for, result, last_error, finished_at, unique_for
), update (unique_for)
  on {schema}.jobs to {role};
grant insert on {schema}.job_dependencies to {role};
grant insert, select (id) on {schema}.job_replacements to {role};
grant select (name, max_size, is_policy) on {schema}.channels to {role};
grant select (channel, last_id, jobs), insert (channel, last_id, jobs)
  on {schema}.channel_sizes to {role};
grant usage on sequence {schema}.jobs_id_seq to {role};
