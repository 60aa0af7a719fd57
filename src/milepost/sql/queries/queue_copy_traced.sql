-- Like queue_copy_plain, within a span.
copy {schema}.jobs (id, channel, content, run_at, trace) from stdin (format binary)
