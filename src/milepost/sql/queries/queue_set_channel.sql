select {schema}.set_channel(
  %(name)s, %(max_concurrency)s, %(release_interval)s, %(max_size)s, %(paused)s
)
