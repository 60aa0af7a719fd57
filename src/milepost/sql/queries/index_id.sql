create unique index concurrently messages_id on {schema}.messages (id)
