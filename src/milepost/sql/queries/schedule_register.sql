select {schema}.register_schedule(
  %(name)s, %(every)s::interval, %(cron)s, %(timezone)s, %(begun_at)s, %(first_at)s,
  %(channel)s, %(content)b, %(run_at)s::timestamptz, %(delay)s::interval, %(priority)s,
  %(max_attempts)s, %(unique_key)s, %(state)b, %(keep_for)s::interval,
  %(replace)s, %(unique_for)s::interval, %(owner)s
)
