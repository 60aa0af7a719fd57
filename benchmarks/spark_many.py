"""Ten pipelines of one application that have nothing to do: how long until all of them are ready,
against one, and what they cost while they are idle, as a share of a core."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

from benchmarks import sample
from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.rounds import alternate
from milepost import append, db
from milepost.db import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.workbench import Workbench

_MANY = 10
_MESSAGES = 1_000
_TIMEOUT_SECONDS = 300
_READY = "select count(*) from milepost.checkpoints where position >= %s"


def measure(bench: Workbench) -> list[Comparison]:
    idle: list[float] = []

    def ready_seconds(number: int) -> float:
        with bench.database() as url:
            last = _filled(url)
            began = time.perf_counter()
            with _running(url, number) as process:
                _wait_until_ready(url, number, last)
                seconds = time.perf_counter() - began
                if number == _MANY:
                    time.sleep(bench.choose(10, 3))  # Java compiles for a while
                    idle.append(_share_of_a_core(process, bench.choose(30, 5)))
        return seconds

    times = alternate(
        {"many": lambda: ready_seconds(_MANY), "one": lambda: ready_seconds(1)},
        rounds=bench.choose(3, 1),
    )
    name = f"{_MANY} caught-up pipelines"
    return [
        Comparison(f"{name}, ready", "one pipeline", "s", times["many"], times["one"], AtMost(3)),
        Comparison(f"{name}, idle", "a core", "cores", idle, [1.0] * len(idle), AtMost(0.05)),
    ]


def _filled(url: str) -> int:
    with db.connect(url) as conn:
        return append(conn, *sample.orders(_MESSAGES))[-1].position


@contextmanager
def _running(url: str, number: int) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "benchmarks.many_pipelines", url, str(number)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _wait_until_ready(url: str, number: int, last: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    with db.connect(url) as conn:
        while one(conn.execute(_READY, [last]).fetchone())[0] < number:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{number} pipelines were not ready in {_TIMEOUT_SECONDS} s")
            time.sleep(0.02)


def _share_of_a_core(process: psutil.Process, seconds: float) -> float:
    """Of the driver, its Java and its Python workers."""
    before, began = _cpu_seconds(process), time.monotonic()
    time.sleep(seconds)
    return (_cpu_seconds(process) - before) / (time.monotonic() - began)


def _cpu_seconds(process: psutil.Process) -> float:
    everyone = [process, *process.children(recursive=True)]
    times = [each.cpu_times() for each in everyone]
    return float(sum(each.user + each.system for each in times))


FIGURE = Figure("spark_many", "Ten idle pipelines of one application", measure)
