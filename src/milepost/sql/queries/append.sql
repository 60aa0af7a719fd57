-- The sequence is drawn in the order of the arrays: the sort comes before the defaults.
insert into {schema}.messages (id, topic, key, type, data, metadata)
select id, topic, key, type, data, metadata
from unnest(
  %(ids)s::uuid[], %(topics)s::text[], %(keys)s::text[], %(types)s::text[],
  %(data)s::json[], %(metadata)s::json[]
) with ordinality as given (id, topic, key, type, data, metadata, ordinality)
order by ordinality
returning transaction_id, "position"
