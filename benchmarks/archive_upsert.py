"""A pipeline that catches up from the archive, with sums from `content`, against the usual recipe
that reads the same messages from the table."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.archived_log import MESSAGES_PER_FILE, archive_by_spark, remove_all
from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import CONTENTS, MESSAGES_PER_BATCH, TOTALS, fill, totals_pipeline
from benchmarks.spark_recipe import Recipe
from benchmarks.spark_session import on_tcp, require_jdbc, session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench

_SIZES = (MESSAGES_PER_BATCH, 5 * MESSAGES_PER_BATCH)


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with (
        on_tcp(bench) as tcp,
        tcp.database() as table,
        tcp.database() as archived,
        session() as spark,
    ):
        number = fill(table, bench.choose(2_000_000, 100_000))
        fill(archived, number)
        per_file = min(MESSAGES_PER_FILE, number // 2)
        archive_by_spark(spark, archived, tcp.directory / "archive", per_file)
        remove_all(archived)
        runs = (tcp.directory / f"archive-upsert-{n}" for n in count())
        sides = {}
        for at_once in _SIZES:
            sides["ours", at_once] = partial(_ours, archived, runs, number, at_once)
            sides["recipe", at_once] = partial(_recipe, spark, table, runs, number, at_once)
        alternate({name: sides[name] for name in [*sides][:2]}, rounds=1)
        measured = alternate(sides, rounds=bench.choose(3, 1))
    return [
        Comparison(
            f"sums from content in the archive, batches of {at_once:,}",
            "JDBC and a merge, from the table",
            "messages/s",
            measured["ours", at_once],
            measured["recipe", at_once],
            AtLeast(4),
        )
        for at_once in _SIZES
    ]


def _ours(url: str, runs: Iterator[Path], number: int, at_once: int) -> float:
    pipeline = totals_pipeline(url, next(runs), CONTENTS, 0, at_once)
    return per_second(number, lambda: pipeline.run(until="caught_up"))


def _recipe(
    spark: SparkSession, url: str, runs: Iterator[Path], number: int, at_once: int
) -> float:
    recipe = Recipe(spark, url, TOTALS, at_once)
    return per_second(number, lambda: recipe.run(next(runs)))


FIGURE = Figure("archive_upsert", "Catching up from the archive, against the usual recipe", measure)
