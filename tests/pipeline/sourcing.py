"""Reading the log through Spark in tests."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from milepost import Message, Milepost, Position


def append(mp: Milepost, count: int, topic: str = "orders", first: int = 0) -> list[Position]:
    """Messages numbered from `first`, in transactions of up to seven."""
    positions: list[Position] = []
    numbers = list(range(first, first + count))
    with mp.connect() as conn:
        for start in range(0, count, 7):
            messages = [
                Message("Even" if n % 2 == 0 else "Odd", {"n": n}, key=f"k{n % 5}", topic=topic)
                for n in numbers[start : start + 7]
            ]
            positions += mp.append(conn, *messages)
    return positions


def table(spark: SparkSession, url: str, **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format("milepost").options(url=url, **texts).load()


def stream(spark: SparkSession, url: str, **options: object) -> DataFrame:
    texts = {name: str(value) for name, value in options.items()}
    return spark.readStream.format("milepost").options(url=url, **texts).load()


def to_files(messages: DataFrame, place: Path, *, is_following: bool = False) -> StreamingQuery:
    """A query that writes what it reads below a directory, each message in the batch it came in:
    all there is, or with `is_following` until it is stopped."""
    writer = messages.writeStream.format("parquet").option(
        "checkpointLocation", str(place / "checkpoint")
    )
    writer = (
        writer.trigger(processingTime="0 seconds")
        if is_following
        else writer.trigger(availableNow=True)
    )
    return writer.start(str(place / "out"))


def drain(messages: DataFrame, place: Path) -> StreamingQuery:
    """Everything that is there now."""
    query = to_files(messages, place)
    assert query.awaitTermination(100)
    return query


def numbers_of(messages: DataFrame) -> list[int]:
    rows = messages.selectExpr("cast(get_json_object(data, '$.n') as int) as n").collect()
    return sorted(row.n for row in rows)


def numbers_in(spark: SparkSession, place: Path) -> list[int]:
    """What a query has written so far."""
    if not (place / "out").exists():
        return []
    written = spark.read.schema("data string").parquet(str(place / "out"))
    return numbers_of(written)
