-- put: add jobs. Of the others' jobs, only whether a unique key is taken and a channel is full.
grant insert (
  id, channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for
) on {schema}.jobs to {role};
grant select (id, channel, unique_key, status) on {schema}.jobs to {role};
grant select (name, max_size) on {schema}.channels to {role};
grant usage on sequence {schema}.jobs_id_seq to {role};
