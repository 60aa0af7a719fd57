-- The newest first. An index scan, however many there are: ids are drawn in the order of time.
select a.id, a.at, a.who, a.action, a.subject, a.arguments
from {schema}.audit as a
where (%(before)s::bigint is null or a.id < %(before)s)
  and (%(subject)s::text is null or a.subject = %(subject)s)
order by a.id desc
limit %(limit)s
