-- The messages of a range, in order. The scalar bounds repeat the row comparisons, for the planner.
-- Filters that are not used are null, and the planner removes them.
select {columns}
from (
  select
    transaction_id, "position", id::text as id, topic, key, type, data, metadata, recorded_at
  from {schema}.messages
) as m
where (m.transaction_id, m."position") > (%(after_transaction_id)s, %(after_position)s)
  and (m.transaction_id, m."position") <= (%(last_transaction_id)s, %(last_position)s)
  and m.transaction_id >= %(after_transaction_id)s
  and m.transaction_id <= %(last_transaction_id)s
  and {schema}.refuse_removed(
    row(%(after_transaction_id)s, %(after_position)s)::{schema}.position
  )
  and (%(topics)s::text[] is null or m.topic = any(%(topics)s::text[]))
  and (%(types)s::text[] is null or m.type = any(%(types)s::text[]))
  and (%(keys)s::text[] is null or m.key = any(%(keys)s::text[]))
  and (%(ids)s::text[] is null or m.id = any(%(ids)s::text[]))
  and (%(not_topics)s::text[] is null or m.topic <> all(%(not_topics)s::text[]))
  and (%(not_types)s::text[] is null or m.type <> all(%(not_types)s::text[]))
  and (%(not_keys)s::text[] is null or m.key <> all(%(not_keys)s::text[]))
  and (%(not_ids)s::text[] is null or m.id <> all(%(not_ids)s::text[]))
  and (%(is_keyed)s::boolean is null or (m.key is not null) = %(is_keyed)s::boolean)
  and (%(min_transaction_id)s::bigint is null or m.transaction_id >= %(min_transaction_id)s::bigint)
  and (%(max_transaction_id)s::bigint is null or m.transaction_id <= %(max_transaction_id)s::bigint)
  and (%(min_position)s::bigint is null or m."position" >= %(min_position)s::bigint)
  and (%(max_position)s::bigint is null or m."position" <= %(max_position)s::bigint)
  and (%(recorded_from)s::timestamptz is null or m.recorded_at >= %(recorded_from)s::timestamptz)
  and (%(recorded_to)s::timestamptz is null or m.recorded_at <= %(recorded_to)s::timestamptz)
order by m.transaction_id, m."position"
