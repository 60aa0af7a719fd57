"""What keeps a pipeline exact, to be taken out (`replace_in`): the function, the guard, and what
is there instead. Tests in tests/pipeline show what is doubled or hidden then, step by step: a
torture would have to wait for a kill at the right moment."""

NOTE = ("note_spark_batch", "\n    and coalesce(p.spark_batch, -1) < note_spark_batch.batch", "")
COMPARED_CHECKPOINTS = ("swap_pipeline", "elsif is_behind and", "elsif false and")
