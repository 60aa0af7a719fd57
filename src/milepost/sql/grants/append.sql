-- append: write messages. What a message says is the writer's to choose; where it stands and when it
-- was recorded is not.
grant insert (id, topic, key, type, data, metadata) on {schema}.messages to {role};
