-- Which of these files must stay: those of the manifest, wherever it says they are, because one place
-- may have several names; and those that were replaced a short time ago.
select name from {schema}.archive where name = any(%(names)s::text[])
union all
select name
from {schema}.archive_replaced
where name = any(%(names)s::text[]) and replaced_at > clock_timestamp() - %(older_than)s::interval
