"""What the session that Milepost starts has in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from milepost.pipeline.data_source import MilepostSource
from milepost.pipeline.start_spark import STREAM_VARIABLES, register_source, spark_session


class Fresh(MilepostSource):
    """The same source; no stream of this session has used it before."""

    @classmethod
    def name(cls) -> str:
        return "fresh"


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.usefixtures("mp")
def test_a_stream_that_starts_adds_nothing_to_what_others_are_sending(
    url: str, spark: SparkSession
) -> None:
    register_source(spark, Fresh)
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    variables = manager.lookupDataSource("fresh").dataSourceCls().envVars()
    before = set(variables.keySet())
    stream = spark.readStream.format("fresh").options(url=url).load()
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    assert set(variables.keySet()) == before
    assert variables["SPARK_PYTHON_RUNTIME"], "it is this map that a stream writes into"
    assert not set(STREAM_VARIABLES) & set(spark.sparkContext.environment)


def test_a_pipeline_that_starts_does_not_disturb_one_that_plans(spark: SparkSession) -> None:
    """Spark iterates over the variables of the process when it plans a function in Python."""
    is_over = threading.Event()

    def start() -> None:
        while not is_over.is_set():
            assert spark_session() is spark

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    try:
        for _ in range(100):
            f.udf(lambda: 1, "int")()
    finally:
        is_over.set()
        starting.join()


def test_a_source_is_registered_without_changing_what_others_iterate_over(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spark.sparkContext.environment
    seen: list[tuple[bool, int]] = []

    def register(_registration: object, _source: object) -> None:
        seen.append((spark.sparkContext.environment is before, len(before)))

    monkeypatch.setattr("pyspark.sql.datasource.DataSourceRegistration.register", register)
    register_source(spark, Fresh)
    assert seen == [(False, len(before))]
    assert spark.sparkContext.environment is before


def test_the_pythons_of_spark_import_the_installed_pyspark(spark: SparkSession) -> None:
    """From an archive, each of them would compile it again."""

    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(place, "place string").collect()
    assert row.place == pyspark.__file__
