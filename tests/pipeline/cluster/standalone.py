"""A real standalone cluster on loopback, from the installed package: a master and its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from milepost.embedded.java import java_home
from tests.pipeline.cluster.daemon import PATIENCE_SECONDS, Daemon, start
from tests.waiting import wait_until

HOST = "127.0.0.1"
WORKERS = 2
ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(slots=True)
class Cluster:
    """A master, and workers of one core each: one executor each, if one application runs."""

    directory: Path
    master: Daemon
    url: str
    workers: list[Daemon] = field(default_factory=list)

    def executors(self) -> list[int]:
        return [pid for worker in self.workers for pid in worker.members(_EXECUTOR)]

    def executor_beside(self, pid: int) -> int:
        """The executor that a Python worker computes for."""
        return self.worker_of(pid).members(_EXECUTOR)[0]

    def worker_of(self, pid: int) -> Daemon:
        """The worker that started this process."""
        return next(worker for worker in self.workers if os.getsid(pid) == worker.process.pid)

    def wait_for_executors(self, count: int) -> None:
        # Looking starts a process, hence not too often.
        wait_until(lambda: len(self.executors()) == count, PATIENCE_SECONDS, look_seconds=0.2)

    def replace_lost_workers(self) -> None:
        """Whatever a test has killed, the next one finds all workers and no executor."""
        self.workers = [worker for worker in self.workers if worker.is_running()]
        started = [self._start_worker() for _ in range(WORKERS - len(self.workers))]
        for worker in started:
            worker.wait_to_say(r"(Successfully registered with master)")
        self.wait_for_executors(0)

    def stop(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()

    def _start_worker(self) -> Daemon:
        number = len(list(self.directory.iterdir()))
        place = self.directory / f"worker-{number}"
        place.mkdir()
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(place / "work"), self.url]
        # A host each: Spark never speculates on the host that the slow task runs on.
        worker = _start("worker.Worker", arguments, place, f"127.0.0.{1 + number}")
        self.workers.append(worker)
        return worker


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    place = directory / "master"
    place.mkdir(parents=True)
    master = _start("master.Master", [], place)
    try:
        cluster = Cluster(directory, master, master.wait_to_say(r"master at (spark://\S+)"))
    except BaseException:
        master.kill()
        raise
    try:
        cluster.replace_lost_workers()
        yield cluster
    finally:
        cluster.stop()


def _start(name: str, arguments: list[str], place: Path, host: str = HOST) -> Daemon:
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    address = ["--host", host, "--port", "0", "--webui-port", "0"]
    environment = bare_environment(place, host)
    return start([*command, *address, *arguments], environment, place / "log", place)


def bare_environment(place: Path, host: str) -> dict[str, str]:
    """As bare as that of a real worker: nothing of this run's databases reaches executors."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(place),
        "JAVA_HOME": str(java_home(os.environ)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(place / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        # On a fixed port, and nobody needs it here.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
