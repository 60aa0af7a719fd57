insert into {schema}.messages (id, topic, key, type, data, metadata)
values (
  %(id)s::uuid, %(topic)s::text, %(key)s::text, %(type)s::text, %(data)s::json, %(metadata)s::json
)
returning {schema}.transaction_id(), {schema}.last_position()
