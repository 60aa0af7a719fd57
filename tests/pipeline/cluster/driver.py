"""The driver of a test, in a process of its own: a process has one session of Spark's."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.pipeline.cluster.daemon import PATIENCE_SECONDS, Daemon, start
from tests.pipeline.cluster.gate import Gate
from tests.pipeline.cluster.standalone import HOST, ROOT, Cluster

# What this machine says about databases and Spark must not reach the driver.
_FOREIGN = ("PG", "MILEPOST_", "SPARK_", "PYSPARK_")
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SETTINGS = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _QUICK,
    # Where executors find the functions of the application; see docs/spark-cluster.md.
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
    "spark.ui.enabled": "false",
}
# A second attempt at once, of whatever takes longer than the others.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.5",
    # Also where there is no other: a round in which one segment alone is behind.
    "spark.speculation.task.duration.threshold": "2s",
}
ANSWER = "answer: "  # what the line begins with that holds it


@contextmanager
def started(
    cluster: Cluster, url: str, way: str, gate: Gate, settings: Mapping[str, str] | None = None
) -> Iterator[Daemon]:
    """`application` on the cluster, killed at the end if it still runs."""
    place = gate.directory.parent
    module = "tests.pipeline.cluster.application"
    arguments = [way, str(gate.directory), str(gate.position), str(gate.holds)]
    command = [sys.executable, "-m", module, *arguments]
    chosen = SETTINGS | dict(settings or {})
    kept = {name: v for name, v in os.environ.items() if not name.startswith(_FOREIGN)}
    variables = {
        "MILEPOST_URL": url,
        "MILEPOST_SPARK_MASTER": cluster.url,
        "MILEPOST_SPARK_CONF": ";".join(f"{name}={value}" for name, value in chosen.items()),
        "MILEPOST_SPARK_DIR": str(place / "checkpoints"),
        "SPARK_LOCAL_DIRS": str(place / "scratch"),
    }
    daemon = start(command, kept | variables, place / "driver.log", ROOT)
    try:
        yield daemon
    finally:
        daemon.kill()


def ends_well(driver: Daemon) -> Any:
    """Waits for its end; what it answered. Its JVM may have the last word in the log."""
    code = driver.process.wait(PATIENCE_SECONDS)
    said = driver.log.read_text()
    assert code == 0, said
    answer = re.search(f"{ANSWER}(.*)", said)
    assert answer is not None, said
    return json.loads(answer[1])
