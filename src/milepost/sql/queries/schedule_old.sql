select o.name, o.content
from {schema}.overdue_old_schedules(make_interval(secs => %(late_seconds)s)) as o
