copy {schema}.messages (id, topic, key, type, data, metadata) from stdin (format binary)
