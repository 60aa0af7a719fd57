drop index concurrently if exists {schema}.messages_id
