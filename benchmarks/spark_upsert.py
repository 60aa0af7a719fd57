"""A stream of orders added up by customer in a table: a pipeline with an upsert, against the usual
recipe with the same source, the same transformation and batches of the same size.

Twice: customers counted by the messages' key, and sums of what is parsed from their JSON, which
costs both sides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, product
from typing import TYPE_CHECKING

from benchmarks.figure import AtLeast, Comparison, Figure
from benchmarks.rounds import alternate, per_second
from benchmarks.spark_log import (
    COUNTS,
    MESSAGES_PER_BATCH,
    TOTALS,
    Projection,
    fill,
    totals_pipeline,
)
from benchmarks.spark_recipe import Recipe
from benchmarks.spark_session import on_tcp, require_jdbc, session
from milepost import db

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.workbench import Workbench

_SIZES = (MESSAGES_PER_BATCH, 5 * MESSAGES_PER_BATCH)
_RESULT = "select count(*), sum(orders), max(customer) from {}"


@dataclass(frozen=True, slots=True)
class _Case:
    """A projection and a batch size, for both sides."""

    spark: SparkSession
    url: str
    runs: Iterator[Path]
    number: int
    projection: Projection
    at_once: int

    @property
    def name(self) -> str:
        return f"{self.projection.name}, batches of {self.at_once:,}"

    def ours(self) -> float:
        pipeline = totals_pipeline(self.url, next(self.runs), self.projection, 0, self.at_once)
        return per_second(self.number, lambda: pipeline.run(until="caught_up"))

    def recipe(self) -> float:
        return self._recipe(is_tuned=False)

    def tuned(self) -> float:
        return self._recipe(is_tuned=True)

    def _recipe(self, *, is_tuned: bool) -> float:
        recipe = Recipe(self.spark, self.url, self.projection, self.at_once, is_tuned)
        rate = per_second(self.number, lambda: recipe.run(next(self.runs)))
        self._compare_results()
        return rate

    def _compare_results(self) -> None:
        """A side that is fast because it is wrong must not pass."""
        with db.connect(self.url) as conn:
            ours = conn.execute(_RESULT.format("totals").encode()).fetchone()
            theirs = conn.execute(_RESULT.format("recipe_totals").encode()).fetchone()
        if ours != theirs:
            raise RuntimeError(f"the pipeline has {ours}, the recipe {theirs}")


def measure(bench: Workbench) -> list[Comparison]:
    require_jdbc()
    with on_tcp(bench) as reachable, reachable.database() as url, session() as spark:
        number = fill(url, bench.choose(2_000_000, 100_000))
        runs = (reachable.directory / f"upsert-{n}" for n in count())
        cases = [
            _Case(spark, url, runs, number, projection, at_once)
            for projection, at_once in product((COUNTS, TOTALS), _SIZES)
        ]
        measured = _measured(cases, rounds=bench.choose(3, 1))
    return [comparison for case in cases for comparison in _compared(case, measured)]


def _measured(cases: list[_Case], rounds: int) -> dict[str, list[float]]:
    """Each side once before it counts: code is compiled, workers are started."""
    sides = {}
    for case in cases:
        sides[f"ours, {case.name}"] = case.ours
        sides[f"recipe, {case.name}"] = case.recipe
        if case.at_once == MESSAGES_PER_BATCH:
            sides[f"tuned, {case.name}"] = case.tuned
    for case in cases[:: len(_SIZES)]:
        case.ours()
        case.recipe()
    return alternate(sides, rounds)


def _compared(case: _Case, measured: dict[str, list[float]]) -> Iterator[Comparison]:
    ours, unit = measured[f"ours, {case.name}"], "messages/s"
    recipe = measured[f"recipe, {case.name}"]
    yield Comparison(case.name, "JDBC and a merge", unit, ours, recipe, AtLeast(3))
    if tuned := measured.get(f"tuned, {case.name}"):
        against = "the same, inserts rewritten, unlogged"
        yield Comparison(case.name, against, unit, ours, tuned)


FIGURE = Figure("spark_upsert", "A stream into an upsert, against the usual recipe", measure)
