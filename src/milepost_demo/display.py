"""The output of the demo: a line while it runs, tables at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.cli.output import console, say

if TYPE_CHECKING:
    from milepost_demo.run import Outcome
    from milepost_demo.story import Revenue

# Between lines in a file or a pipe; the one line of a terminal is always refreshed.
PLAIN_INTERVAL_SECONDS = 3.0
_ROWS = {
    "committed": "committed (counted by SQL)",
    "read": "read",
    "lost": "lost",
    "doubled": "doubled",
    "out_of_order": "out of order",
    "rolled_back": "rolled back, yet read",
}


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the demo, on stderr: `show` the current state, `tell` an event."""

    show: Callable[[str], None]
    tell: Callable[[str], None]


@contextmanager
def progress() -> Iterator[Progress]:
    err = console(stderr=True)
    if err.is_terminal:
        with err.status("starting") as status:
            yield Progress(status.update, err.print)
    else:
        yield Progress(_Plain(), say)


class _Plain:
    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PLAIN_INTERVAL_SECONDS
            say(text)


def print_outcome(outcome: Outcome) -> None:
    _print_table(
        ("messages", "milepost's reader", "reading to max(position)"),
        [
            (name, f"{getattr(outcome.reader, field):,}", f"{getattr(outcome.naive, field):,}")
            for field, name in _ROWS.items()
        ],
    )
    out = console()
    out.print(
        f"{outcome.writers} writers, {outcome.seconds:.0f} s; they committed "
        f"{outcome.written.committed:,} messages and rolled {outcome.written.rolled_back:,} back."
    )
    _print_balances(outcome)
    if outcome.revenue is not None:
        _print_revenue(outcome.revenue)
    if outcome.failure is None:
        ok = "ok: nothing was lost, doubled or out of order, and every effect happened once"
        out.print(ok, style="green")
    else:
        out.print(f"FAILED: {outcome.failure}", style="bold red")


def _print_balances(outcome: Outcome) -> None:
    found, longest = outcome.balances, outcome.takeover_seconds
    rows = [("killed with SIGKILL", f"{outcome.kills} times")]
    if longest is not None:
        rows.append(("longest time until the other one had its segments", f"{longest:.1f} s"))
    rows += [
        ("customers", f"{found.customers:,}"),
        ("sum of its balances", f"{found.sum_of_balances:,}"),
        ("sum over the log (one SQL query)", f"{found.sum_of_log:,}"),
        ("customers that differ", f"{found.wrong:,}"),
    ]
    title = "an exactly-once processor, its segments shared by two instances"
    _print_table((title, ""), rows)


def _print_revenue(found: Revenue) -> None:
    rows = [
        ("driver killed with SIGKILL during a batch", f"{found.kills} times"),
        ("revenue_by_day rebuilt while it ran, now version", f"{found.version}"),
        ("days, customers", f"{found.days:,}, {found.customers:,}"),
        ("sum of revenue_by_day", f"{found.sum_of_days:,}"),
        ("sum of revenue_by_customer", f"{found.sum_of_customers:,}"),
        ("sum over the log (one SQL query)", f"{found.sum_of_log:,}"),
        ("rows that differ", f"{found.wrong:,}"),
    ]
    _print_table(("two Spark pipelines", ""), rows)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """All columns but the first are aligned right."""
    from rich.table import Table

    table = Table(columns[0])
    for column in columns[1:]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    console().print(table)
