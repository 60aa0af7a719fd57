select {schema}.set_channel(
  %(name)s, %(max_concurrency)s, %(release_interval)s, %(max_size)s, %(paused)s,
  %(max_concurrency_total)s, %(rate_count)s, %(rate_period)s, %(rate_burst)s
)
