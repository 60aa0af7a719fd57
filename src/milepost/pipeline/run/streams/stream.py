"""The streaming query of a pipeline that keeps state in Spark: how it is started, and what it does
with each batch."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer
from milepost.errors import CompetingPipeline
from milepost.pipeline.frames import with_content
from milepost.pipeline.run import orders
from milepost.pipeline.sinks import Files
from milepost.pipeline.source import Range
from milepost.pipeline.write import CheckpointMoved, RangeWriter, SparkBatch

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from milepost.pipeline.definition import Definition
    from milepost.pipeline.run.orders import Orders
    from milepost.pipeline.run.report import PipelineStatus
    from milepost.pipeline.run.setup import Setup
    from milepost.pipeline.run.streams.spark_directory import CheckpointDirectory
    from milepost.records import Position
    from milepost.runtime import Until


@dataclass(slots=True)
class BatchHandler:
    """Spark calls it for each batch, in one of its own threads."""

    definition: Definition
    writer: RangeWriter
    directory: CheckpointDirectory
    opened_at: Position  # the checkpoint when this query started
    status: PipelineStatus
    stop: Event
    error: BaseException | None = field(default=None, init=False)
    gate: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, df: DataFrame, batch: int) -> None:
        with self.gate:
            try:
                self._handle(df, batch)
            except BaseException as error:
                self.error = error  # the exception itself: Spark returns only a string
                raise

    def _handle(self, df: DataFrame, batch: int) -> None:
        range_ = Range(self.directory.start_of(batch), self.directory.end_of(batch))
        asked = orders.wait_for_orders(self.writer, self.definition.options, self.stop)
        if self._is_done(range_, asked):  # Spark's state moves on only if the batch is computed
            df.write.format("noop").mode("overwrite").save()
            return
        noted = SparkBatch(self.directory.run, batch)
        self.status.batch(self.writer.apply(df, range_, noted))

    def _is_done(self, range_: Range, asked: Orders) -> bool:
        """Whether this range was done before the query started: Spark replays its last batch if it
        does not know that it ended. Anything else means that somebody moved the checkpoint."""
        checkpoint = asked.checkpoint
        if checkpoint == range_.after:
            return False
        if checkpoint == range_.last == self.opened_at:
            return True
        if checkpoint is None or checkpoint < range_.after:
            raise CheckpointMoved(Answer.MISSING if checkpoint is None else Answer.OLDER)
        answer = Answer.IGNORED if checkpoint == range_.last else Answer.FURTHER
        raise CompetingPipeline(
            self.definition.options.name, self.writer.owner, asked.owner, answer.name.lower()
        )


def start_query(
    setup: Setup, directory: CheckpointDirectory, handler: BatchHandler | None, until: Until
) -> StreamingQuery:
    """Read, transform, and pass each batch to the handler, or to Spark's file sink."""
    options = setup.options
    reader = setup.spark.readStream.format("milepost")
    messages = reader.options(**source_options(setup, directory.start)).load()
    # The source has no `content`: it is parsed here.
    stream = setup.definition.function(with_content(messages, options.wanted))
    # The name has a part that is different for each query: if two drivers share a session, the
    # checkpoint finds the competitor and names it, before Spark refuses a duplicate name.
    name = f"{options.name} v{options.version} {directory.run[:6]}"
    writer = stream.writeStream.queryName(name).option("checkpointLocation", directory.path)
    if isinstance(options.sink, Files):
        writer = _to_files(writer, options.sink)
    elif handler is not None:
        writer = writer.foreachBatch(handler).outputMode(options.output_mode)
    if options.ends(until):
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()


def source_options(setup: Setup, start: Position) -> dict[str, str]:
    """The options of the source are strings: it runs in another process."""
    source = setup.source(setup.options.max_messages_per_batch)
    conditions = source.conditions
    lists = {"topics": conditions.topics, "types": conditions.types, "columns": source.columns}
    given = {
        "url": setup.url,
        "schema": source.schema,
        "startingPosition": start,
        "maxMessagesPerTrigger": source.max_messages,
        "partitions": source.partitions,
        "messagesPerPartition": source.messages_per_partition,
    } | {name: None if names is None else json.dumps([*names]) for name, names in lists.items()}
    return {name: str(value) for name, value in given.items() if value is not None}


def _to_files(writer: DataStreamWriter, sink: Files) -> DataStreamWriter:
    writer = writer.format(sink.format).option("path", sink.path).outputMode("append")
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
