"""How a pipeline reads: as a value for reads by ranges, as strings for Spark's stream."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame

from milepost import Append, Position
from milepost.pipeline.definition import Definition, PipelineOptions
from milepost.pipeline.names import COLUMNS
from milepost.pipeline.run.setup import Setup
from milepost.pipeline.run.streams.stream import source_options
from milepost.pipeline.source.options import parse
from milepost.runtime import Runtime

URL = "postgresql://me@host/database"
SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=4))


def setup_of(**options: Any) -> Setup:
    def function(messages: DataFrame) -> DataFrame:
        return messages

    return Setup(
        Definition(PipelineOptions("p", Append("t"), **options), function), Runtime(URL, "s"), SPARK
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"topics": ["a,b", "c"], "types": ["T"], "columns": ["data", "key"], "partitions": 3},
        {"max_messages_per_batch": 10},
    ],
)
def test_the_stream_reads_as_the_ranges_are_read(options: dict[str, Any]) -> None:
    setup = setup_of(**options)
    source = setup.source(setup.options.max_messages_per_batch)
    parsed = parse(source_options(setup, Position(0, 7)), os.environ)
    assert parsed.start == Position(0, 7)
    for name in ("conninfo", "schema", "conditions", "max_messages", "partitions", "columns"):
        assert getattr(parsed, name) == getattr(source, name), name
    assert parsed.messages_per_partition == source.messages_per_partition
    assert parsed.retry_seconds == source.retry_seconds


def test_messages_are_divided_among_the_cores_but_not_into_tiny_parts() -> None:
    setup = setup_of()
    assert setup.source(100_000).messages_per_partition == 25_000
    assert setup.source(100).messages_per_partition == 5_000


def test_columns_are_in_the_order_of_the_source() -> None:
    assert setup_of(columns=["key", "position"]).source(1).columns == ("position", "key")
    assert setup_of().source(1).columns == tuple(COLUMNS)


def test_the_directory_has_a_place_for_each_version() -> None:
    setup = setup_of(version=2)
    assert setup.directory({"MILEPOST_SPARK_DIR": "s3://bucket/"}) == "s3://bucket/s/p/v2"
    assert setup.as_built(5).directory({"MILEPOST_SPARK_DIR": "s3://b"}) == "s3://b/s/p/v5"
    given = setup_of(checkpoint_dir="hdfs:/mine")
    assert given.directory({"MILEPOST_SPARK_DIR": "s3://b"}) == "hdfs:/mine/s/p/v1"
    assert setup.directory({}).startswith("file:///")
