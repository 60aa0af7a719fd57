select {schema}.put_bytes(
  %(channel)s, %(content)b,
  coalesce(%(run_at)s::timestamptz, clock_timestamp() + %(delay)s::interval),
  %(priority)s, %(max_attempts)s, %(unique_key)s, %(state)b, %(keep_for)s,
  %(after)b::bigint[], %(on_dead)s, %(replace)s, %(unique_for)s, %(trace)s
)
