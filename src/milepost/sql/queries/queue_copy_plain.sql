-- Jobs that say nothing but channel and content, which most do.
copy {schema}.jobs (id, channel, content, run_at) from stdin (format binary)
