-- Put its job now, besides its ticks.
select {schema}.put_scheduled(s) from {schema}.schedules as s where s.name = %(name)s
