"""How the time of a pipeline grows with the log, and whether its driver's memory does.

A run's constant part, a second or so, is in it and makes the smallest log look slower than it is;
so compare the larger ones with each other too. Memory is what is left after a collection: the
driver's Python processes by what the kernel counts as theirs, the JVM by its used heap.
"""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figure import AtMost, Comparison, Figure
from benchmarks.spark_log import TOTALS, fill, totals_pipeline
from benchmarks.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench

_FULL = (500_000, 2_000_000, 8_000_000)
_QUICK = (50_000, 100_000, 200_000)
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Measured:
    microseconds: float  # for a message
    python_mib: float
    heap_mib: float


def measure(bench: Workbench) -> list[Comparison]:
    sizes = _QUICK if bench.is_quick else _FULL
    with bench.database() as url, session() as spark:
        fill(url, sizes[0])
        _run(url, bench.directory / "growth-warm-up")
        measured, filled = [], sizes[0]
        for size in sizes:
            filled = fill(url, size, already=filled)
            measured.append(_measure(spark, url, bench.directory / f"growth-{size}", size))
    first = measured[0]
    return [
        comparison
        for size, found in zip(sizes[1:], measured[1:], strict=True)
        for comparison in _comparisons(
            f"{size:,}", f"{sizes[0]:,}", found, first, size == sizes[-1]
        )
    ]


def _comparisons(
    size: str, smallest: str, found: _Measured, first: _Measured, is_largest: bool
) -> list[Comparison]:
    target = AtMost(1.2) if is_largest else None
    values = (
        ("µs a message", "µs", found.microseconds, first.microseconds),
        ("MiB, driver's Python", "MiB", found.python_mib, first.python_mib),
        ("MiB, driver's heap", "MiB", found.heap_mib, first.heap_mib),
    )
    return [
        Comparison(f"{size} messages: {name}", smallest, unit, [ours], [base], target)
        for name, unit, ours, base in values
    ]


def _measure(spark: SparkSession, url: str, directory: Path, size: int) -> _Measured:
    return _Measured(_run(url, directory) / size * 1e6, _python_mib(), _heap_mib(spark))


def _run(url: str, directory: Path) -> float:
    pipeline = totals_pipeline(url, directory, TOTALS)
    began = time.perf_counter()
    pipeline.run(until="caught_up")
    return time.perf_counter() - began


def _python_mib() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MEBIBYTE


def _heap_mib(spark: SparkSession) -> float:
    """After two collections: the first one finds what the second one frees."""
    jvm = spark._jvm
    if jvm is None:
        raise RuntimeError("this Spark has no JVM of its own")
    for _ in range(2):
        jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / _MEBIBYTE


FIGURE = Figure("spark_growth", "How time and the driver's memory grow with the log", measure)
