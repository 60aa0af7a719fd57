-- Whether this Spark batch of a stateful pipeline has not been written yet; it counts as written
-- from now on. Spark also runs batches without new messages, when a watermark has moved or a timer
-- is due. They do not move the checkpoint, so this is a second fence against a replayed batch.
create or replace function {schema}.note_spark_batch(
  pipeline text, version integer, run text, batch bigint
) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
begin
  update {schema}.pipelines as p
  set spark_batch = note_spark_batch.batch
  where p.name = note_spark_batch.pipeline
    and p.version = note_spark_batch.version
    and p.spark_run = note_spark_batch.run
    and coalesce(p.spark_batch, -1) < note_spark_batch.batch;
  return found;
end;
$$;
