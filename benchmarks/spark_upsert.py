"""A stream of orders added up by customer in a table: a pipeline with an upsert, against the usual
recipe with the same source, the same transformation and batches of the same size."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import (
    MESSAGES_PER_BATCH,
    customer_totals,
    fill,
    summed_totals,
    totals_pipeline,
)
from benchmarks.spark_recipe import Recipe
from benchmarks.spark_session import on_tcp, require_jdbc, session
from milepost import db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.workbench import Workbench

    Transform = Callable[[DataFrame], DataFrame]

_UNIT = "messages/s"
_WARM_UP = 50_000
_RESULT = "select count(*), sum(cents), sum(orders), max(customer) from {}"


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with on_tcp(bench) as reachable, reachable.database() as url, session() as spark:
        number = fill(url, bench.choose(2_000_000, 100_000))
        runs = (reachable.directory / f"upsert-{n}" for n in count())
        sides = {
            "ours": partial(_ours, url, runs, number, customer_totals),
            "recipe": partial(_recipe, spark, url, runs, number, customer_totals),
            "tuned": partial(_recipe, spark, url, runs, number, customer_totals, is_tuned=True),
            "ours, summed": partial(_ours, url, runs, number, summed_totals),
            "recipe, summed": partial(_recipe, spark, url, runs, number, summed_totals),
        }
        for side in sides.values():
            side(start=number - _WARM_UP)  # code is compiled, workers are started
        measured = alternate(sides, rounds=bench.choose(3, 1))
        _compare_results(url)
    name = f"pipeline, batches of {MESSAGES_PER_BATCH:,}"
    ours, summed = measured["ours"], measured["ours, summed"]
    return [
        Comparison(name, "JDBC and a merge", _UNIT, ours, measured["recipe"], AtLeast(3)),
        Comparison(
            name, "the same, inserts rewritten, unlogged", _UNIT, ours, measured["tuned"]
        ),
        Comparison(
            f"{name}, summed by Spark first", "JDBC and a merge, the same", _UNIT, summed,
            measured["recipe, summed"],
        ),
    ]  # fmt: skip


def _ours(
    url: str, runs: Iterator[Path], number: int, transform: Transform, start: int = 0
) -> float:
    directory = next(runs)
    pipeline = totals_pipeline(url, directory, transform, start)
    return per_second(number - start, lambda: pipeline.run(until="caught_up"))


def _recipe(
    spark: SparkSession, url: str, runs: Iterator[Path], number: int, transform: Transform,
    start: int = 0, *, is_tuned: bool = False,
) -> float:  # fmt: skip
    recipe = Recipe(spark, url, transform, is_tuned)
    return per_second(number - start, lambda: recipe.run(next(runs), start))


def _compare_results(url: str) -> None:
    """A side that is fast because it is wrong must not pass."""
    with db.connect(url) as conn:
        ours = conn.execute(_RESULT.format("totals")).fetchone()
        theirs = conn.execute(_RESULT.format("recipe_totals")).fetchone()
    if ours != theirs:
        raise RuntimeError(f"the pipeline has {ours}, the recipe {theirs}")


FIGURE = Figure("spark_upsert", "A stream into an upsert, against the usual recipe", measure)
