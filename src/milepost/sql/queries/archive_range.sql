-- Where the archive begins, and where it ends: at the same position, if it is empty.
select
  coalesce(first.after_transaction_id, archived.transaction_id),
  coalesce(first.after_position, archived."position"),
  archived.transaction_id,
  archived."position"
from {schema}.archive_end() as archived
left join {schema}.archive as first on first.is_first
