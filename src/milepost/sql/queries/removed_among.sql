-- Of these positions, those whose messages are not in the table any more.
select wanted.transaction_id, wanted."position"
from unnest(%(transaction_ids)s::bigint[], %(positions)s::bigint[])
  as wanted (transaction_id, "position")
where not exists (
  select from {schema}.messages as m
  where m.transaction_id = wanted.transaction_id and m."position" = wanted."position"
)
