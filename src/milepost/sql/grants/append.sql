-- append: write messages. What a message says is the writer's to choose; where it stands and when it
-- was recorded is not.
grant insert (id, topic, key, type, data, metadata) on {schema}.messages to {role};
-- Goes when an append needs INSERT alone: its positions are read back.
grant select (transaction_id, "position", id) on {schema}.messages to {role};
