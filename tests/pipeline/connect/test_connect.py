"""Pipelines, the source and `history` through a Spark Connect server: Python reaches no JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from milepost import Milepost
from tests.pipeline.cluster.daemon import Daemon, start
from tests.pipeline.cluster.standalone import ROOT, SPARK_HOME, bare_environment
from tests.pipeline.own_spark import BRIEF
from tests.pipeline.running import expected_per_customer, rows

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(400),
    pytest.mark.parametrize("order", ["append"]),
]


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """The address of one on loopback, in its own process. Its workers are this Python."""
    environment = bare_environment(tmp_path, "127.0.0.1") | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "1g",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]"]
    for setting in (
        "spark.connect.grpc.binding.address=127.0.0.1",
        "spark.connect.grpc.binding.port=0",
        "spark.sql.shuffle.partitions=2",
        *(f"{name}={value}" for name, value in BRIEF.items()),
    ):
        command += ["--conf", setting]
    daemon = start([*command, "--class", SERVER], environment, tmp_path / "log", tmp_path)
    try:
        yield f"sc://127.0.0.1:{_port(daemon)}"
    finally:
        daemon.kill()


def _port(daemon: Daemon) -> str:
    return daemon.wait_to_say(r"Spark Connect server started at: \S+:(\d+)")


def test_pipelines_run_in_a_session_of_spark_connect(
    mp: Milepost, url: str, connect_server: str
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.connect.program", url, connect_server]
    done = subprocess.run(
        command, cwd=ROOT, timeout=300, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["session"] == "pyspark.sql.connect.session"
    assert (seen["read"], seen["history"]) == (100, 100)
    assert seen["rebuilt"] == [2, 100]
    assert "cannot be stateful in a session of Spark Connect" in seen["stateful"]
    query = "select customer, total, orders from customers order by customer"
    assert rows(mp, query) == expected_per_customer(100)
    assert rows(mp, "select count(*) from milepost.messages where topic = 'copies'") == [(60,)]
