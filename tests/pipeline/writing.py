"""Writing rows through the range writer in tests, without a log: one position for each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from milepost import Milepost, Position
from milepost.checkpoints import CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.pipeline.sinks import PostgresSink
from milepost.pipeline.source import Range
from milepost.pipeline.write import RangeWriter

NAME = "written"


@contextmanager
def writing(mp: Milepost, sink: PostgresSink, name: str = NAME) -> Iterator[RangeWriter]:
    """Of version 1 of a pipeline, which is the active one."""
    key = CheckpointKey(name, 1)
    with mp.connect() as conn:
        activate(conn, name)
        PostgresCheckpointStore(conn).first(key, lambda: Position.BEGINNING, "test")
        yield RangeWriter(
            key=key, sink=sink, conn=conn, conninfo=mp._url, owner="test", schema="milepost"
        )


def activate(conn: Connection, name: str = NAME) -> None:
    conn.execute(
        "insert into milepost.pipelines (name, version, code_version, sink, is_active)"
        " values (%s, 1, 1, 'a table', true) on conflict do nothing",
        (name,),
    )


def write(writer: RangeWriter, df: DataFrame) -> None:
    """As the next batch."""
    writer.apply(df, next_range(writer))


def next_range(writer: RangeWriter) -> Range:
    found = PostgresCheckpointStore(writer.conn).load(writer.key)
    assert found is not None
    at = found.position
    return Range(at, Position(at.transaction_id, at.position + 1))


def frame(spark: SparkSession, schema: str, *rows: Sequence[Any]) -> DataFrame:
    """In one partition, in this order."""
    return spark.createDataFrame([tuple(row) for row in rows], schema).coalesce(1)
