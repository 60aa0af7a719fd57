-- The row belongs to the active instance. An instance that has not handled anything yet reports
-- only if no other has reported for a while, and never reports its stop: an instance with a slow
-- batch does not report either.
update {schema}.processors
set state = %(state)s,
  owner = %(owner)s,
  handled = handled + %(handled)s,
  rate = %(rate)s,
  last_error = coalesce(%(error)s, last_error),
  last_error_at = case when %(error)s::text is null then last_error_at else clock_timestamp() end,
  reported_at = clock_timestamp()
where name = %(processor)s
  and version = %(version)s
  and (
    %(is_active)s
    or owner = %(owner)s
    or state in ('stopped', 'failed')
    or (reported_at < clock_timestamp() - interval '15 s' and %(state)s <> 'stopped')
  )
