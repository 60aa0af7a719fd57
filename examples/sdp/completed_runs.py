"""A repair of Spark 4.3.0, without which `spark-pipelines run` ends with an error though the run
has completed: UNKNOWN_RESPONSE ... __python_accumulator__.

Every Python process of a data source tells the client how its profiler counted, also if there is no
profiler. The client of `spark-pipelines` does not expect that. Remove this file once Spark does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.connect.client import SparkConnectClient

_NAME = "__python_accumulator__"


def let_runs_complete() -> None:
    """In this process, which is that of `spark-pipelines`."""
    received = SparkConnectClient._execute_and_fetch_as_iterator

    def expected(self: SparkConnectClient, *args: Any, **kwargs: Any) -> Iterator[Any]:
        answers = received(self, *args, **kwargs)
        return (answer for answer in answers if getattr(answer, "name", None) != _NAME)

    SparkConnectClient._execute_and_fetch_as_iterator = expected  # type: ignore[method-assign]
