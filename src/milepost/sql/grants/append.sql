-- append: write messages. The writer chooses the content of a message, but not its position and
-- not the time when it was recorded.
grant insert (id, topic, key, type, data, metadata) on {schema}.messages to {role};
-- From Spark, rows go through a staging table of the role's own, which `open_spark_write` creates. Which
-- batch was written last is the functions' to note; earlier versions granted it.
revoke select, update (batch, rows, used_at) on {schema}.spark_writes from {role};
