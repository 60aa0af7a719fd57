"""What the demo shows: a line while it runs, a table at its end."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from milepost.cli.demo.tally import Counts
from milepost.cli.output import console, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from milepost.cli.demo.run import Outcome
    from milepost.cli.demo.story import Revenue

# Of lines in a file or a pipe; a terminal's one line is refreshed as it comes.
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
    """How far the demo is, on stderr: `show` what changes all the time, `tell` what happens."""

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
    from rich.table import Table

    table = Table("messages")
    table.add_column("milepost's reader", justify="right")
    table.add_column("reading to max(position)", justify="right")
    for field in fields(Counts):
        ours, naive = (getattr(c, field.name) for c in (outcome.reader, outcome.naive))
        table.add_row(_ROWS[field.name], f"{ours:,}", f"{naive:,}")
    out = console()
    out.print(table)
    out.print(
        f"{outcome.writers} writers, {outcome.seconds:.0f} s; they committed "
        f"{outcome.written.committed:,} messages and rolled {outcome.written.rolled_back:,} back."
    )
    _print_balances(outcome)
    if outcome.revenue is not None:
        _print_revenue(outcome.revenue)
    out.print(_verdict(outcome), style="green" if outcome.holds else "bold red")


def _print_balances(outcome: Outcome) -> None:
    from rich.table import Table

    found = outcome.balances
    table = Table("an exactly-once processor, its segments shared by two instances")
    table.add_column("", justify="right")
    table.add_row("killed with SIGKILL", f"{outcome.kills} times")
    if outcome.takeover_seconds is not None:
        longest = f"{outcome.takeover_seconds:.1f} s"
        table.add_row("its segments with the other one, at the latest after", longest)
    table.add_row("customers", f"{found.customers:,}")
    table.add_row("sum of its balances", f"{found.sum_of_balances:,}")
    table.add_row("sum over the log (one SQL query)", f"{found.sum_of_log:,}")
    table.add_row("customers that differ", f"{found.wrong:,}")
    console().print(table)


def _print_revenue(found: Revenue) -> None:
    from rich.table import Table

    table = Table("two Spark pipelines")
    table.add_column("", justify="right")
    table.add_row("driver killed with SIGKILL in mid-batch", f"{found.kills} times")
    table.add_row("checkpoint directory deleted", f"{found.directories_deleted} time")
    table.add_row("revenue_by_day rebuilt beside it, now version", f"{found.version}")
    table.add_row("days, customers", f"{found.days:,}, {found.customers:,}")
    table.add_row("sum of revenue_by_day", f"{found.sum_of_days:,}")
    table.add_row("sum of revenue_by_customer", f"{found.sum_of_customers:,}")
    table.add_row("sum over the log (one SQL query)", f"{found.sum_of_log:,}")
    table.add_row("rows that differ", f"{found.wrong:,}")
    console().print(table)


def as_document(outcome: Outcome) -> dict[str, Any]:
    return {"ok": outcome.holds, **asdict(outcome)}


def _verdict(outcome: Outcome) -> str:
    if outcome.holds:
        return "ok: nothing was lost, doubled or out of order, and every effect happened once"
    if not outcome.balances.is_faultless:
        return "FAILED: the balances are not the log's"
    if outcome.revenue is not None and not outcome.revenue.is_faultless:
        return "FAILED: the revenues are not the log's"
    if not outcome.kills:
        return "FAILED: no instance was killed: run it longer"
    if outcome.reader.is_faultless:
        return "FAILED: the log does not hold what the writers committed"
    if not outcome.reader.read:
        return "FAILED: nothing was read"
    return "FAILED: see the column of milepost's reader"
