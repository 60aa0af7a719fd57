"""A driver whose JVM is killed, and one whose cluster is not there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from milepost import Milepost, RecordedMessage, Upsert
from milepost.db import Connection
from milepost.errors import SparkDriverEnded
from tests.pipeline.engine.spark_runner import spark_runner
from tests.pipeline.own_spark import BRIEF_VARIABLE
from tests.pipeline.running import (
    Running,
    expected_per_customer,
    per_customer,
    place,
    rows,
    runner_of,
)
from tests.waiting import wait_until

pytestmark = pytest.mark.parametrize("order", ["append"])
REPOSITORY = Path(__file__).parents[3]
CUSTOMERS = "select customer, total, orders from customers order by customer"
SINK = Upsert("customers", key=["customer"], add=["total", "orders"])
START_SECONDS = 300.0  # for a Spark on a busy machine


def started(
    url: str, directory: Path, *words: str, master: str = "local[2]"
) -> subprocess.Popen[str]:
    command = ["run", "tests.pipeline.driver:mp", "--master", master, *words]
    variables = {
        "MILEPOST_URL": url,
        "MILEPOST_SPARK_DIR": directory.as_uri(),
        "MILEPOST_SPARK_CONF": BRIEF_VARIABLE,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "milepost.cli", *command],
        cwd=REPOSITORY,
        env=os.environ | variables,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    """Of a process; by the parent that each process names."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue  # it has ended
        if f"\nPPid:\t{pid}\n" in text:
            found.append(int(status.parent.name))
    return found


@pytest.mark.soak
@pytest.mark.timeout(1000)
def test_a_killed_jvm_is_told_and_ends_the_process_for_its_supervisor(
    mp: Milepost, url: str, tmp_path: Path
) -> None:
    """Which starts it again. That run shows no noise of Spark, as any run."""
    place(mp, 0, 30)
    process = started(url, tmp_path)
    try:
        wait_until(lambda: _orders(mp) == 30, START_SECONDS, look_seconds=0.1)
        (java,) = children(process.pid)
        os.kill(java, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 75, stderr
    (line,) = [x for x in stderr.splitlines() if x.startswith("error: ")]
    assert line.startswith("error: The Spark driver (the JVM that belongs to this process) ended")
    assert "signal 9" in line
    assert "Traceback" not in stderr
    assert "reconnecting" not in stderr
    ((state, error),) = rows(mp, "select state, last_error from milepost.pipelines")
    assert (state, str(error)[:16]) == ("failed", "SparkDriverEnded")
    place(mp, 30, 30)
    with started(url, tmp_path, "--until", "caught_up") as again:
        _, stderr = again.communicate(timeout=300)
    assert again.returncode == 0, stderr
    assert rows(mp, CUSTOMERS) == expected_per_customer(60)
    refuse_noise_of_spark(stderr)


def refuse_noise_of_spark(stderr: str) -> None:
    """Only Milepost says something."""
    lines = stderr.splitlines()
    assert [x for x in lines if "milepost" not in x and not x.startswith("running")] == []


@pytest.mark.parametrize("kind", ["pipeline", "processor"])
def test_who_is_idle_notices_that_its_jvm_has_ended(
    mp: Milepost, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Before its next batch. The JVM of the tests goes on: another child of this process ends."""
    if kind == "pipeline":
        pipeline = mp.pipeline("customers", sink=SINK)(per_customer)
        caught_up, run = pipeline.caught_up, Running(runner_of(pipeline, spark))
    else:
        processor = mp.processor("nothing", segments=2, engine="spark")(do_nothing)
        caught_up, run = processor.caught_up, Running(spark_runner(processor, spark).supervisor)
    place(mp, 0, 30)
    wait_until(lambda: run.error or caught_up())
    with subprocess.Popen(["/bin/true"]) as child:
        pass
    monkeypatch.setattr(SparkContext._gateway, "proc", child)
    wait_until(lambda: run.error)
    assert isinstance(run.error, SparkDriverEnded)
    assert "it exited with code 0" in str(run.error)


def do_nothing(_messages: list[RecordedMessage], _tx: Connection) -> None:
    pass


@pytest.mark.timeout(120)
def test_an_unreachable_master_is_one_line(mp: Milepost, url: str, tmp_path: Path) -> None:
    with socket.socket() as taken:  # nobody listens there, and nobody else is given the port
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        master = f"spark://127.0.0.1:{port}"
        with started(url, tmp_path, "--until", "caught_up", master=master) as process:
            _, stderr = process.communicate(timeout=100)
    assert process.returncode == 1
    (line,) = [x for x in stderr.splitlines() if "running" not in x]
    assert line.startswith(f"error: The Spark master spark://127.0.0.1:{port} cannot be reached (")


def _orders(mp: Milepost) -> int:
    if rows(mp, "select to_regclass('customers')") == [(None,)]:
        return 0
    return int(str(rows(mp, "select coalesce(sum(orders), 0) from customers")[0][0]))
