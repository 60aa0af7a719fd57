create index concurrently messages_key on {schema}.messages (key, transaction_id, "position")
where key is not null
