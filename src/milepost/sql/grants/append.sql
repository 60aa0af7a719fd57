-- append: write messages. The writer chooses the content of a message, but not its position and
-- not the time when it was recorded.
grant insert (id, topic, key, type, data, metadata) on {schema}.messages to {role};
-- From Spark, rows go through a staging table, which `open_spark_write` creates. Only what tells which
-- batch was written last: a role that appends can write any message anyway.
grant select, update (batch, rows, used_at) on {schema}.spark_writes to {role};
