"""One streaming query of a pipeline: how it is started, and what it does with each batch."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer
from milepost.errors import CompetingPipeline
from milepost.pipeline.ranges import Range
from milepost.pipeline.report import Orders, ask_orders
from milepost.pipeline.sinks import Files
from milepost.pipeline.writer import CheckpointMoved, RangeWriter, SparkBatch

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from milepost.pipeline.definition import Definition, PipelineOptions
    from milepost.pipeline.offsets import Began, CheckpointDirectory
    from milepost.pipeline.report import Reporter
    from milepost.processors.session import Until
    from milepost.records import Position

HELD_SECONDS = 0.5
LEAST_PER_PARTITION = 5_000  # below that, a second task costs more than it brings


class Stopping(Exception):
    """A stop was asked for while the batch waited; nothing of it was written."""


@dataclass(slots=True)
class BatchHandler:
    """What Spark calls for each batch, in a thread of its own."""

    definition: Definition
    writer: RangeWriter
    directory: CheckpointDirectory
    began: Began
    opened_at: Position  # the checkpoint when this query began
    reporter: Reporter
    stop: Event
    error: BaseException | None = field(default=None, init=False)
    gate: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, df: DataFrame, batch: int) -> None:
        with self.gate:
            try:
                self._handle(df, batch)
            except BaseException as error:
                self.error = error  # as it is: from Spark it comes back as a text
                raise

    def _handle(self, df: DataFrame, batch: int) -> None:
        start = self.directory.start_of(batch, self.began)
        range_ = Range(start, self.directory.end_of(batch))
        if self._is_done(range_, self._orders()):
            self._pass_over(df)
            return
        options = self.definition.options
        output = df if options.stateful else self.definition.function(df)
        noted = SparkBatch(self.began.run, batch) if options.stateful else None
        self.reporter.batch(self.writer.apply(output, range_, noted))

    def _is_done(self, range_: Range, orders: Orders) -> bool:
        """Whether this range was done before the query began: Spark replays its last batch if it
        does not know that it ended. Anything else means that somebody moved the checkpoint."""
        checkpoint = orders.checkpoint
        if checkpoint == range_.after:
            return False
        if checkpoint == range_.last == self.opened_at:
            return True
        if checkpoint is None or checkpoint < range_.after:
            raise CheckpointMoved(Answer.MISSING if checkpoint is None else Answer.OLDER)
        answer = Answer.IGNORED if checkpoint == range_.last else Answer.FURTHER
        raise CompetingPipeline(
            self.definition.options.name, self.writer.owner, orders.owner, answer.name.lower()
        )

    def _pass_over(self, df: DataFrame) -> None:
        """State is Spark's, and moves on only if the batch is computed."""
        if self.definition.options.stateful:
            df.write.format("noop").mode("overwrite").save()

    def _orders(self) -> Orders:
        return wait_for_orders(self.writer, self.definition.options, self.stop)


def wait_for_orders(writer: RangeWriter, options: PipelineOptions, stop: Event) -> Orders:
    """Waits for as long as the operators, or a rebuild, want the pipeline to."""
    while (orders := ask_orders(writer.conn, options, writer.schema)).is_held:
        _refuse_swapped(writer, orders)
        if stop.wait(HELD_SECONDS):
            raise Stopping
    _refuse_swapped(writer, orders)
    return orders


def _refuse_swapped(writer: RangeWriter, orders: Orders) -> None:
    if orders.epoch not in (None, writer.epoch):
        raise CheckpointMoved(Answer.FENCED)  # another version was made the active one


def start_query(
    spark: SparkSession,
    definition: Definition,
    url: str,
    schema: str,
    directory: CheckpointDirectory,
    began: Began,
    handler: BatchHandler | None,
    until: Until,
) -> StreamingQuery:
    """Read, transform, and hand each batch to the handler, or to Spark's file sink."""
    options = definition.options
    stream = _read(spark, definition, url, schema, began)
    if options.keeps_state:
        stream = definition.function(stream)
    # With a part of its own: a competitor in the same session is found by the checkpoint, in words
    # that name it, not by Spark's refusal of a name.
    name = f"{options.name} v{options.version} {began.run[:6]}"
    writer = stream.writeStream.queryName(name).option("checkpointLocation", directory.path)
    writer = (
        _to_files(writer, options.sink)
        if handler is None
        else (writer.foreachBatch(handler).outputMode(options.output_mode))
    )
    if options.ends(until):
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()


def _read(
    spark: SparkSession, definition: Definition, url: str, schema: str, began: Began
) -> DataFrame:
    options = definition.options
    at_once = options.max_messages_per_batch
    given = source_options(options, url, schema, at_once, spark.sparkContext.defaultParallelism)
    reader = spark.readStream.format("milepost").options(**given)
    reader = reader.option("startingPosition", str(began.start))
    return reader.option("maxMessagesPerTrigger", at_once).load()


def source_options(
    options: PipelineOptions, url: str, schema: str, at_once: int, cores: int
) -> dict[str, str]:
    """How a pipeline reads, so that as many messages at once are shared out over all cores."""
    given = {"url": url, "schema": schema}
    if options.topics is not None:
        given["topics"] = json.dumps(list(options.topics))
    if options.types is not None:
        given["types"] = json.dumps(list(options.types))
    if options.columns is not None:
        given["columns"] = json.dumps(list(options.columns))
    if options.partitions is not None:
        return given | {"partitions": str(options.partitions)}
    return given | {"messagesPerPartition": str(max(at_once // cores, LEAST_PER_PARTITION))}


def _to_files(writer: DataStreamWriter, sink: object) -> DataStreamWriter:
    if not isinstance(sink, Files):
        raise TypeError(f"{type(sink).__name__} is no sink of files.")
    writer = writer.format(sink.format).option("path", sink.path).outputMode("append")
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
