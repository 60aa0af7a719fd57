"""A Spark session as Milepost starts it: with a Java that is there, the Python that runs this,
and silent but for errors."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from milepost.embedded.java import java_home, quiet_home
from milepost.pipeline.source import MilepostSource

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
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit tells the program so where its Java listens
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    # Filters reach the source only with this; it is off in Spark unless asked for.
    "spark.sql.python.filterPushdown.enabled": "true",
}
_LOCAL_DEFAULTS = {
    # A driver that only ever talks to itself needs no name that others can resolve.
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's 200 are for clusters: here they would be 200 tiny tasks in every small batch.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def spark_session(
    app_name: str = "milepost",
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    *,
    is_quiet: bool = True,
) -> SparkSession:
    """The session of this process, started if there is none; it knows `format("milepost")`.

    What `config` says wins over every default here.
    """
    is_submitted = _SUBMITTED in os.environ
    chosen = settings(master, config or {}, is_quiet=is_quiet, is_submitted=is_submitted)
    _prepare_environment(is_quiet=is_quiet)
    builder = SparkSession.builder.appName(app_name)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register_source(spark)
    return spark


def register_source(spark: SparkSession, source: type[DataSource] = MilepostSource) -> None:
    """Let the session know `format("milepost")`, for any number of streams that start at once.

    All queries of a session share one map of variables of the source's, and a stream that starts
    puts some into it while another one's tasks may be written out with it: that job then fails with
    an OptionalDataException. Names that are there already are only given values, which is harmless.
    """
    environment = spark.sparkContext.environment
    added = {name: "" for name in STREAM_VARIABLES if name not in environment}
    environment.update(added)
    try:
        spark.dataSource.register(source)
    finally:
        for name in added:
            del environment[name]


def settings(
    master: str | None,
    config: Mapping[str, str],
    *,
    is_quiet: bool = True,
    is_submitted: bool = False,
) -> dict[str, str]:
    """Every setting of the session. Pure. What spark-submit has started has its master already."""
    address = master or config.get("spark.master") or ("" if is_submitted else DEFAULT_MASTER)
    local = _LOCAL_DEFAULTS if address.startswith("local") else {}
    chosen = _DEFAULTS | local | dict(config)
    if address:
        chosen["spark.master"] = address
    if is_quiet:
        # In front, so that a user's own logging options win.
        option = f"-Dlog4j2.configurationFile=file:{_LOGGING}"
        chosen[_JAVA_OPTIONS] = f"{option} {config.get(_JAVA_OPTIONS, '')}".strip()
    return chosen


def _prepare_environment(*, is_quiet: bool) -> None:
    """What Spark's launcher and its workers read. The workers must be of this Python, with these
    packages."""
    home = java_home(os.environ)
    os.environ["JAVA_HOME"] = str(quiet_home(home, os.environ) if is_quiet else home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
