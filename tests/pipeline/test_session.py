"""What the session that Milepost starts has in it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from milepost.pipeline.session import STREAM_VARIABLES, register_source
from milepost.pipeline.source import MilepostSource


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
