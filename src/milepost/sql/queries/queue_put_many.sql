-- Delays become times by the server's clock.
select array(select {schema}.put_many_bytes(
  %(channels)b::text[], %(contents)b::bytea[],
  array(
    select coalesce(given.run_at, clock_timestamp() + given.delay)
    from unnest(%(run_ats)b::timestamptz[], %(delays)b::interval[])
      with ordinality as given (run_at, delay, number)
    order by given.number
  ),
  %(priorities)b::integer[], %(max_attempts)b::integer[], %(unique_keys)b::text[],
  %(states)b::bytea[], %(keep_for)b::interval[],
  %(afters)b::text[], %(on_dead)b::text[], %(replaces)b::boolean[], %(unique_for)b::interval[],
  %(trace)s::text
))
