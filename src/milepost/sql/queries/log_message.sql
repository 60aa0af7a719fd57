-- One message in the table, as it is stored; its data only if they are asked for.
select
  m.transaction_id,
  m."position",
  m.id::text as id,
  m.topic,
  m.type,
  m.key,
  m.recorded_at::text as recorded_at,
  m.metadata::text as metadata,
  octet_length(m.data::text) as data_bytes,
  case when %(with_data)s then m.data::text end as data
from {schema}.messages as m
where m.transaction_id = %(transaction_id)s and m."position" = %(position)s
