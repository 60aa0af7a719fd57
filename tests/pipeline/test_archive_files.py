"""Spark reads the files of an archive as they are, and counts what PostgreSQL counted."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from milepost import Milepost
from milepost.archive.publish import FileName
from milepost.archive.upkeep import compact, erase, replace_files, verify
from milepost.log.history import ArchivedFile
from tests.archiving import Archive
from tests.integration.archive.conftest import archive
from tests.integration.archive.test_open_format import asked, counted, documented, files

__all__ = ["archive", "counted", "files"]  # fixtures
_TIMES = "spark.sql.parquet.outputTimestampType"
pytestmark = pytest.mark.parametrize("order", ["append", "transaction"])


def test_spark_counts_the_same(
    spark: SparkSession, files: list[str], counted: list[tuple[Any, ...]]
) -> None:
    found = asked(documented("messages = spark"), spark=spark, files=files)
    amounts = {row[0]: int(row[1]) for row in found.collect()}
    assert amounts == {topic: int(amount) for topic, _, amount in counted}
    messages = spark.read.parquet(*files)
    assert messages.count() == sum(number for _, number, _ in counted)
    assert messages.where("key = 'k3' and recorded_at > '2020-01-01'").count() == 285


def test_spark_reads_every_column(spark: SparkSession, archive: Archive, files: list[str]) -> None:
    messages = spark.read.parquet(*files)
    assert dict(messages.dtypes) == {
        "transaction_id": "bigint",
        "position": "bigint",
        "id": "string",
        "topic": "string",
        "key": "string",
        "key_hash": "bigint",
        "type": "string",
        "data": "string",
        "metadata": "string",
        "recorded_at": "timestamp",
        "recorded_at_text": "string",
    }
    rows = messages.orderBy("transaction_id", "position").collect()
    assert [row.data for row in rows[:2]] == ['{"n":0,"amount":0}', '{"n":1,"amount":1}']
    assert [row.key for row in rows[:2]] == [None, "k1"]
    assert all(row.recorded_at is not None for row in rows)


def with_content(
    spark: SparkSession, archive: Archive, file: ArchivedFile, place: Path
) -> ArchivedFile:
    """The same messages as Spark writes them, in the directory. Not with INT96 times, its default,
    which pyarrow reads as nanoseconds."""
    spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
    content = spark.read.parquet(file.address).selectExpr("*", "parse_json(data) as content")
    content.coalesce(1).write.parquet(str(place))
    spark.conf.unset(_TIMES)
    (part,) = place.glob("*.parquet")
    parsed = FileName.parse(file.name)
    assert parsed is not None
    name = str(replace(parsed, serial="spark"))
    written = part.read_bytes()
    (archive.directory / name).write_bytes(written)
    digest = sha256(written).hexdigest()
    return replace(file, name=name, bytes=len(written), sha256=digest, has_content=True)


def test_a_file_that_spark_has_written_is_read_and_rewritten(
    spark: SparkSession, archive: Archive, files: list[str], mp: Milepost, tmp_path: Path
) -> None:
    """In process without its column `content`, which only Spark can write."""
    expected = list(mp.read())
    (first, *_) = archive.files()
    new = with_content(spark, archive, first, tmp_path / "spark")
    assert replace_files(archive.conn, "milepost", [first], new)
    assert list(mp.read()) == expected
    assert compact(archive.conn, "milepost").joined == 2  # and not the one with content
    assert [file.has_content for file in archive.files()] == [True, False]
    erase(archive.conn, "milepost", "k3")
    assert [file.has_content for file in archive.files()] == [False, False]
    assert list(mp.read()) == [message for message in expected if message.key != "k3"]
    assert verify(archive.conn, "milepost").problems == []
