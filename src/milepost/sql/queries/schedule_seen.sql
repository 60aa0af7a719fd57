-- An application that has these schedules in its code runs. One that was marked lately is left out:
-- several instances of an application write no more than one.
update {schema}.schedules as s
set last_seen_at = clock_timestamp()
where s.name = any(%(names)s)
  and (
    s.last_seen_at is null
    or s.last_seen_at < clock_timestamp() - make_interval(secs => %(every_seconds)s)
  )
