"""How a long piece of work goes: a bar on a terminal, else a line now and then. On stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.cli.output import console, duration, say

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINE_SECONDS = 5.0


@dataclass(slots=True)
class Pace:
    """Rate and time left since work was first seen: what was done earlier does not count."""

    clock: Callable[[], float] = time.monotonic
    _first: tuple[float, int] | None = field(default=None, init=False)

    def words(self, done: int, total: int) -> str:
        now = self.clock()
        if self._first is None or done < self._first[1]:
            self._first = (now, done)
        since, before = self._first
        if done == before or now <= since:
            return "-"
        rate = (done - before) / (now - since)
        left = duration(max(total - done, 0) / rate)
        return f"{rate:,.0f}/s, {left} left"


@dataclass(slots=True)
class Lines:
    """For what is not a terminal: a line at each change of phase, and every few seconds."""

    clock: Callable[[], float] = time.monotonic
    write: Callable[[str], None] = say
    _pace: Pace = field(init=False)
    _phase: str = field(default="", init=False)
    _said_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._pace = Pace(self.clock)

    def update(self, phase: str, done: int, total: int) -> None:
        words = self._pace.words(done, total)
        if phase == self._phase and self.clock() - self._said_at < LINE_SECONDS:
            return
        self._phase, self._said_at = phase, self.clock()
        self.write(f"{phase}: {done:,} of {total:,} messages, {words}")


@dataclass(slots=True)
class Bars:
    """One bar, whose words follow the phase."""

    bar: Bar
    task: TaskID
    _pace: Pace = field(default_factory=Pace, init=False)

    def update(self, phase: str, done: int, total: int) -> None:
        words = self._pace.words(done, total)
        self.bar.update(
            self.task, description=phase, completed=done, total=max(total, 1), words=words
        )


@contextmanager
def progress() -> Iterator[Lines | Bars]:
    out = console(stderr=True)
    if not out.is_terminal:
        yield Lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(),
        MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Bar(*columns, console=out) as bar:
        yield Bars(bar, bar.add_task("starting Spark", total=1, words="-"))
