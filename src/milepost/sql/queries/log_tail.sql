-- The newest messages, the newest first, also those above the horizon. Only the last ones are looked
-- through, so that a filter that matches nothing does not read the whole log.
select
  m.transaction_id,
  m."position",
  m.topic,
  m.type,
  m.key,
  coalesce(to_char(m.recorded_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS'), m.recorded_at::text)
    as recorded_at
from (
  select transaction_id, "position", topic, type, key, recorded_at
  from {schema}.messages
  order by transaction_id desc, "position" desc
  limit %(look_through)s
) as m
where (%(topic)s::text is null or m.topic = %(topic)s)
  and (%(type)s::text is null or m.type = %(type)s)
  and (%(key)s::text is null or m.key = %(key)s)
order by m.transaction_id desc, m."position" desc
limit %(max_count)s
