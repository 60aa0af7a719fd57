-- append: write messages. The writer chooses the content of a message, but not its position and
-- not the time when it was recorded.
grant insert (id, topic, key, type, data, metadata) on {schema}.messages to {role};
