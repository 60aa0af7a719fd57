-- The messages that were set aside.
select pg_catalog.jsonb_build_object(
  'processor', d.processor, 'type', d.type, 'topic', d.topic, 'key', d.key, 'data', d.data,
  'is_parked', d.is_parked
)::text
from {schema}.dead_letters as d
order by d.id
