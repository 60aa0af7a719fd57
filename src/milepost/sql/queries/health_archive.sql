-- Where the policy wants messages to be archived, and for how long the first one waits that is old
-- enough; no row without an archive.
select
  r.archive as location,
  archived.transaction_id,
  archived."position",
  archiving.waiting_seconds
from {schema}.retention as r
cross join {schema}.archive_end() as archived
left join lateral {schema}.archive_waiting() as archiving on true
where r.archive is not null
