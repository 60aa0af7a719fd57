"""What a Spark job does with its batches, without Spark, so that it can be killed often: it stages
rows in two tasks, commits them, and notes the batch in a file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from milepost.pipeline.sink.commit import Commit
from milepost.pipeline.sink.options import parse
from milepost.pipeline.sink.rows import Rows
from milepost.pipeline.sink.writers import stage
from tests.chaos.spark_writer.names import TOPIC

QUERY = "8a3f3a3e-4c4f-4a55-9d0e-2f4a4f9c7c11"
ROWS = 10  # of a task
_SCHEMA = StructType([StructField(name, StringType()) for name in ("type", "data")])


def numbers(batch: int, task: int) -> range:
    first = (2 * batch + task) * ROWS
    return range(first, first + ROWS)


def noted(place: Path) -> int:
    """The last batch of which the job knows that it was written."""
    file = place / "noted"
    return int(file.read_text()) if file.exists() else -1


def note(place: Path, batch: int) -> None:
    (place / "new").write_text(str(batch))
    (place / "new").rename(place / "noted")


def batches(commit: Commit, place: Path) -> Iterator[int]:
    """Each batch that was written, before it is noted."""
    for batch in count(noted(place) + 1):
        attempts = [stage(commit, QUERY, iter([_rows(numbers(batch, task))])) for task in (0, 1)]
        commit.write(attempts, batch)
        yield batch
        note(place, batch)


def _rows(numbers: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"type": "Numbered", "data": str(n)} for n in numbers])


def main(place: Path, url: str) -> None:
    options = parse({"topic": TOPIC, "url": url}, {})
    commit = Commit(options, Rows.of(_SCHEMA, options.topic))
    for _ in batches(commit, place):
        pass
