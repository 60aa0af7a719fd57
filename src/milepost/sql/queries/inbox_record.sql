insert into {schema}.inbox (processor, version, message_id, transaction_id, "position")
select %(processor)s, %(version)s, id, transaction_id, "position"
from unnest(%(ids)s::uuid[], %(transaction_ids)s::bigint[], %(positions)s::bigint[])
  as handled (id, transaction_id, "position")
on conflict do nothing
