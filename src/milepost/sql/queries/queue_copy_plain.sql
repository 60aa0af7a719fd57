-- Jobs with only a channel and content, which is the most frequent case.
copy {schema}.jobs (id, channel, content, run_at) from stdin (format binary)
