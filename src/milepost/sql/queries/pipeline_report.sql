-- The row belongs to the active driver: a driver that has not written a batch yet reports only if
-- no other has reported for a while.
update {schema}.pipelines
set state = %(state)s,
  owner = %(owner)s,
  batches = batches + %(batches)s,
  rows = rows + %(rows)s,
  batches_per_second = %(batches_per_second)s,
  rows_per_second = %(rows_per_second)s,
  phases_ms = coalesce(%(phases_ms)s::jsonb, phases_ms),
  last_error = coalesce(%(error)s, last_error),
  last_error_at = case when %(error)s::text is null then last_error_at else clock_timestamp() end,
  reported_at = clock_timestamp()
where name = %(pipeline)s
  and version = %(version)s
  and (
    %(is_active)s
    or owner = %(owner)s
    or state in ('stopped', 'failed')
    or reported_at < clock_timestamp() - interval '15 s'
  )
