-- The row is the active instance's. One that has not handled anything yet reports only where
-- nobody else has for a while, and that it stops not even then: a slow batch keeps silent too.
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
