"""A run's figures as a table that fits 100 columns, or as JSON with every round's numbers."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.figure import Comparison, Figure

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Run:
    server_version: str
    is_quick: bool
    figures: list[tuple[Figure, list[Comparison]]]


def print_table(run: Run, console: Console | None = None) -> None:
    console = console or Console(width=WIDTH, highlight=False)
    for figure, comparisons in run.figures:
        console.print(_table(figure, comparisons))
    console.print(" · ".join(map(str, _circumstances(run).values())))
    if run.is_quick:
        console.print("A quick run: it shows that the figures can be measured, not what they are.")


def as_json(run: Run) -> str:
    figures = [
        {
            "name": figure.name,
            "what": figure.what,
            "comparisons": [_fields(comparison) for comparison in comparisons],
        }
        for figure, comparisons in run.figures
    ]
    return json.dumps(_circumstances(run) | {"figures": figures}, indent=2, ensure_ascii=False)


def _table(figure: Figure, comparisons: list[Comparison]) -> Table:
    table = Table(title=f"{figure.name}: {figure.what}", title_justify="left", width=WIDTH)
    table.add_column("measured")
    table.add_column("against")
    for column in (comparisons[0].unit, "baseline", "ratio", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for comparison in comparisons:
        table.add_row(*_row(comparison))
    return table


def _row(comparison: Comparison) -> tuple[str, ...]:
    verdicts = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}
    return (
        comparison.name,
        comparison.against,
        f"{median(comparison.ours):,.0f}",
        f"{median(comparison.baseline):,.0f}",
        f"{comparison.ratio:.2f}",
        "" if comparison.target is None else str(comparison.target),
        verdicts[comparison.is_met],
    )


def _fields(comparison: Comparison) -> dict[str, Any]:
    return {
        "name": comparison.name,
        "against": comparison.against,
        "unit": comparison.unit,
        "ours": list(comparison.ours),
        "baseline": list(comparison.baseline),
        "ratio": comparison.ratio,
        "target": None if comparison.target is None else str(comparison.target),
        "is_met": comparison.is_met,
    }


def _circumstances(run: Run) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "postgresql": f"PostgreSQL {run.server_version}",
        "python": f"Python {platform.python_version()}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "load": f"load {os.getloadavg()[2]:.1f}",  # of 15 minutes: who else was at work
    }
