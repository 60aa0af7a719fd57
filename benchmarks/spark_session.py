"""One Spark for all figures of a run: starting one takes seconds, and both sides of a comparison
have the same."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from benchmarks.figure import Skipped
from benchmarks.loopback import loopback_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench

CORES = 2
# Where Debian's libpostgresql-jdbc-java puts it.
_JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")


@contextmanager
def session() -> Iterator[SparkSession]:
    """Two cores, whatever the machine has; the rest as Milepost starts it."""
    from milepost.pipeline import spark_session

    with tempfile.TemporaryDirectory(prefix="milepost-bench-spark-") as directory:
        settings = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": str(CORES),
            "spark.local.dir": directory,
            "spark.sql.warehouse.dir": directory,
        }
        if _JDBC_DRIVER.exists():
            settings["spark.jars"] = str(_JDBC_DRIVER)
        spark = spark_session("milepost-bench", f"local[{CORES}]", settings)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def on_tcp(bench: Workbench) -> Iterator[Workbench]:
    """The workbench, on a server that Java's driver can reach: it knows no unix sockets."""
    if not str(conninfo_to_dict(bench.url).get("host", "/")).startswith("/"):
        yield bench
        return
    with loopback_server(bench.directory) as url:
        yield replace(bench, url=url)


def require_jdbc() -> None:
    """Asked before anything is filled."""
    if not _JDBC_DRIVER.exists():
        raise Skipped("Java's driver for PostgreSQL is absent; Debian: libpostgresql-jdbc-java")


def jdbc(url: str) -> tuple[str, dict[str, str]]:
    """The same server as Java's driver wants it: the URL, and who connects."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    address = f"{parts['host']}:{parts.get('port', '5432')}/{parts['dbname']}"
    properties = {"user": parts["user"], "driver": "org.postgresql.Driver"}
    if "password" in parts:
        properties["password"] = parts["password"]
    return f"jdbc:postgresql://{address}", properties
