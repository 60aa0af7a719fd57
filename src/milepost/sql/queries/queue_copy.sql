copy {schema}.jobs (
  id, channel, content, run_at, status, priority, max_attempts, state, keep_for, trace
) from stdin (format binary)
