-- A tick failed. It is counted once, whichever schedulers tried it, and not at all if one of them
-- succeeded.
update {schema}.schedules as s
set failures = s.failures + 1, last_error = %(error)s,
  retry_at = clock_timestamp() + make_interval(secs => %(delay_seconds)s)
where s.name = %(name)s and s.next_at = %(due_at)s and s.failures = %(failures)s
