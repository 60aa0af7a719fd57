"""Messages written by any Spark job with `format("milepost")`, against a pipeline with the sink
`ToLog`: the same messages, read from the log and appended to it under another topic.

The stream has batches of the same size as the pipeline. The batch write has one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import MESSAGES_PER_BATCH, fill
from benchmarks.spark_session import CORES, session
from milepost import Milepost, ToLog, db
from milepost.db import one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.workbench import Workbench

_COLUMNS = ("key", "type", "data", "metadata")
_AT_ONCE = 5 * MESSAGES_PER_BATCH
_TOPIC = "copies"


@dataclass(frozen=True, slots=True)
class _Case:
    """Each side copies the whole log, and what it has written is removed before the next."""

    spark: SparkSession
    url: str
    runs: Iterator[Path]
    number: int

    def pipeline(self) -> float:
        directory = next(self.runs)
        pipeline = Milepost(self.url).pipeline(
            directory.name,
            topics=["orders"],
            columns=_COLUMNS,
            sink=ToLog(_TOPIC),
            max_messages_per_batch=_AT_ONCE,
            checkpoint_dir=directory.as_uri(),
        )(_unchanged)
        return self._rate(lambda: pipeline.run(until="caught_up"))

    def stream(self) -> float:
        source = self.spark.readStream.format("milepost").options(**self._source())
        rows = source.option("maxMessagesPerTrigger", _AT_ONCE).load()
        writer = rows.writeStream.format("milepost").options(url=self.url, topic=_TOPIC)
        writer = writer.option("checkpointLocation", str(next(self.runs)))
        return self._rate(lambda: writer.trigger(availableNow=True).start().awaitTermination())

    def batch(self) -> float:
        rows = self.spark.read.format("milepost").options(**self._source()).load()
        writer = rows.write.format("milepost").mode("append")
        return self._rate(lambda: writer.options(url=self.url, topic=_TOPIC).save())

    def _source(self) -> dict[str, str]:
        return {
            "url": self.url,
            "topics": "orders",
            "columns": ",".join(_COLUMNS),
            "partitions": str(CORES),
        }

    def _rate(self, work: Callable[[], object]) -> float:
        rate = per_second(self.number, work)
        with db.connect(self.url) as conn:
            copies = one(
                conn.execute("select count(*) from milepost.messages where topic = %s", [_TOPIC])
                .fetchone()
            )  # fmt: skip
            if copies != (self.number,):
                raise RuntimeError(f"{copies[0]} messages were written, not {self.number}")
            conn.execute("delete from milepost.messages where topic = %s", [_TOPIC])
            conn.execute("vacuum milepost.messages")
        return rate


def _unchanged(messages: DataFrame) -> DataFrame:
    return messages


def measure(bench: Workbench) -> list[Comparison]:
    with bench.database() as url, session() as spark:
        number = fill(url, bench.choose(1_000_000, 20_000))
        runs = (bench.directory / f"write-{n}" for n in count())
        case = _Case(spark, url, runs, number)
        sides = {"pipeline": case.pipeline, "stream": case.stream, "batch": case.batch}
        for side in sides.values():  # code is compiled, workers are started
            side()
        measured = alternate(sides, bench.choose(5, 1))
    unit, against = "messages/s", "a pipeline with ToLog"
    return [
        Comparison(name, against, unit, measured[side], measured["pipeline"], AtLeast(0.8))
        for side, name in (
            ("stream", f"writeStream, batches of {_AT_ONCE:,}"),
            ("batch", "write, one transaction"),
        )
    ]


FIGURE = Figure("spark_write", 'Spark jobs that write with format("milepost")', measure)
