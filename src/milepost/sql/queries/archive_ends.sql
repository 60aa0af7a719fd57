-- The end of the archive, the end of what was removed, and whether what is removed must be archived.
select
  archived.transaction_id, archived."position", log.removed_transaction_id, log.removed_position,
  exists (select from {schema}.retention as r where r.archive is not null)
from {schema}.archive_end() as archived, {schema}.log
