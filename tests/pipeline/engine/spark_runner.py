"""Processors on Spark in tests, in the session that all of them share."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from milepost.pipeline.engine.driver import RoundsSession
from milepost.processors import Processor
from milepost.processors.runner import Runner


def spark_runner(processor: Processor, spark: SparkSession) -> Runner:
    make = partial(RoundsSession, spark=spark)
    return Runner(processor.definition, processor.runtime, make_session=make)
