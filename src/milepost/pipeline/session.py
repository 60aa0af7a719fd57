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

DEFAULT_MASTER = "local[*]"
_LOGGING = files("milepost.pipeline") / "log4j2.properties"
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
    spark.dataSource.register(MilepostSource)
    return spark


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
