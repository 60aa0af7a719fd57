copy {schema}.jobs (
  id, channel, content, run_at, status, priority, max_attempts, state, keep_for
) from stdin (format binary)
