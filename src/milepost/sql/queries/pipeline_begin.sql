-- A new Spark directory, in which batches are counted from 0.
update {schema}.pipelines
set spark_run = %(run)s, spark_batch = null
where name = %(pipeline)s and version = %(version)s
