-- Positions are drawn in the order of the arrays: the sort comes before the defaults.
insert into {schema}.messages (id, topic, key, type, data, metadata)
select id, topic, key, type, data, metadata
from unnest(
  %(ids)b::uuid[], %(topics)b::text[], %(keys)b::text[], %(types)b::text[],
  %(data)b::json[], %(metadata)b::json[]
) with ordinality as given (id, topic, key, type, data, metadata, ordinality)
order by ordinality
returning {schema}.transaction_id(), {schema}.last_position()
