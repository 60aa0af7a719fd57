-- What was missed while it was paused is not made up for: it goes on with the first tick after now.
update {schema}.schedules as s
set is_paused = %(is_paused)s,
  next_at = case
    when s.is_paused and not %(is_paused)s and s.next_at < clock_timestamp() then %(next_at)s
    else s.next_at
  end
where s.name = %(name)s
