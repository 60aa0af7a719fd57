select {schema}.put_bytes(
  %(channel)s::text, %(content)b::bytea,
  coalesce(%(run_at)s::timestamptz, clock_timestamp() + %(delay)s::interval),
  %(priority)s::integer, %(max_attempts)s::integer, %(unique_key)s::text, %(state)b::bytea,
  %(keep_for)s::interval, %(after)b::bigint[], %(on_dead)s::text, %(replace)s::boolean,
  %(unique_for)s::interval, %(trace)s::text
)
