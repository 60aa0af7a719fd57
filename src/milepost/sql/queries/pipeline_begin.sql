-- A new directory of Spark's, whose batches count from 0.
update {schema}.pipelines
set spark_run = %(run)s, spark_batch = null
where name = %(pipeline)s and version = %(version)s
