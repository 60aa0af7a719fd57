-- What was appended, without what the server makes by itself.
select pg_catalog.jsonb_build_object(
  'type', m.type, 'topic', m.topic, 'key', m.key, 'data', m.data, 'metadata', m.metadata
)::text
from {schema}.messages as m
order by m.transaction_id, m."position"
