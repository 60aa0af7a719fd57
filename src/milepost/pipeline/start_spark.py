"""A Spark session as Milepost starts it: with the Java that was found, with this Python, and with
errors as its only log output."""

from __future__ import annotations

import logging
import os
import sys
import threading
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from milepost.embedded.java import java_home, quiet_home
from milepost.pipeline.data_source import MilepostSource
from milepost.pipeline.spark.connect import REMOTE
from milepost.pipeline.spark.home import without_archive
from milepost.pipeline.spark.jvm import refuse_ended_driver
from milepost.pipeline.spark.master import refuse_unreachable
from milepost.pipeline.spark.settings import JAVA_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import DataSource

DEFAULT_MASTER = "local[*]"
_LOGGING = files("milepost.pipeline") / "log4j2.properties"
# What Spark's runner of a streaming Python source sets.
STREAM_VARIABLES = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_starting = threading.Lock()  # all pipelines of a process share one session
_registered: WeakSet[SparkSession] = WeakSet()  # sessions that know the source
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it to the port of its Java
_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    # Filters reach the source only with this. It is off by default.
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_DEFAULTS = {
    # A local driver does not need a name that other hosts can resolve.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's default of 200 is for clusters: here it would be 200 tiny tasks in each small batch.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def spark_session(
    app_name: str = "milepost",
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    *,
    is_quiet: bool = True,
) -> SparkSession:
    """The session of this process, started if there is none. It knows `format("milepost")`.

    `config` overrides all defaults. A `master` like `sc://host:15002` is a Spark Connect server.
    """
    _refuse_unusable(master or (config or {}).get("spark.master", ""))
    is_submitted = _SUBMITTED in os.environ
    if master is not None and master.startswith(REMOTE):
        return _connected(master, config or {})
    chosen = settings(master, config or {}, is_quiet=is_quiet, is_submitted=is_submitted)
    with _starting:
        _prepare_environment(is_quiet=is_quiet)
        with without_archive(chosen.get("spark.master", ""), os.environ, sys.executable):
            spark = SparkSession.builder.appName(app_name).config(map={**chosen}).getOrCreate()
        if is_quiet:
            _silence_python(spark)
        if spark not in _registered:  # while no other pipeline uses it
            register_source(spark)
            _registered.add(spark)
    return spark


def _refuse_unusable(address: str) -> None:
    refuse_ended_driver()
    if SparkContext._active_spark_context is None:
        refuse_unreachable(address)


def _connected(address: str, config: Mapping[str, str]) -> SparkSession:
    """A client of a Connect server, which has Python, Milepost and the drivers installed."""
    with _starting:
        spark = SparkSession.builder.remote(address).config(map={**config}).getOrCreate()
        if spark not in _registered:
            spark.dataSource.register(MilepostSource)
            _registered.add(spark)
    return spark


def register_source(spark: SparkSession, source: type[DataSource] = MilepostSource) -> None:
    """Let the session know `format("milepost")`, for streams that start concurrently.

    All queries of a session share one map of the source's variables. A stream that starts adds
    names to it while Spark may serialize it for another stream's tasks: that job then fails with an
    OptionalDataException. To set the values of existing names is harmless.
    """
    context = spark.sparkContext
    environment = context.environment
    # Replaced, not changed: another thread may iterate over it.
    context.environment = dict.fromkeys(STREAM_VARIABLES, "") | environment
    try:
        spark.dataSource.register(source)
    finally:
        context.environment = environment


def settings(
    master: str | None,
    config: Mapping[str, str],
    *,
    is_quiet: bool = True,
    is_submitted: bool = False,
) -> dict[str, str]:
    """Every setting of the session. A program of spark-submit has its master already. Pure."""
    address = master or config.get("spark.master") or ("" if is_submitted else DEFAULT_MASTER)
    local = _LOCAL_DEFAULTS if address.startswith("local") else {}
    chosen = _DEFAULTS | local | dict(config)
    if address:
        chosen["spark.master"] = address
    if is_quiet:
        # First, so that a user's own logging options win.
        option = f"-Dlog4j2.configurationFile=file:{_LOGGING}"
        chosen[JAVA_OPTIONS] = f"{option} {config.get(JAVA_OPTIONS, '')}".strip()
    return chosen


def _silence_python(spark: SparkSession) -> None:
    """PySpark writes each error that it raises to stderr, too, with its stacks. Its server of
    accumulators and py4j print tracebacks when the JVM is killed."""
    for name in _ERROR_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    server: Any = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It logs to the root logger."""
    return not record.pathname.endswith("py4j/java_gateway.py")


def _prepare_environment(*, is_quiet: bool) -> None:
    """What Spark's launcher and its workers read. The workers need this Python and its packages."""
    home = java_home(os.environ)
    os.environ["JAVA_HOME"] = str(quiet_home(home, os.environ) if is_quiet else home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
