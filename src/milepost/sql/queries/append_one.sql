insert into {schema}.messages (id, topic, key, type, data, metadata)
values (%(id)s, %(topic)s, %(key)s, %(type)s, %(data)s, %(metadata)s)
returning {schema}.transaction_id(), {schema}.last_position()
