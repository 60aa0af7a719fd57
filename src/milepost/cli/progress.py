"""The progress of long work on stderr: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from milepost.cli.output import console, say
from milepost.words import duration

LINE_SECONDS = 5.0


@dataclass(slots=True)
class Pace:
    """Rate and remaining time, measured from the first update: earlier work does not count."""

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
class Lines(Pace):
    """Without a terminal: a line at each change of phase, and every few seconds."""

    write: Callable[[str], None] = say
    _phase: str = field(default="", init=False)
    _said_at: float = field(default=0.0, init=False)

    def update(self, phase: str, done: int, total: int) -> None:
        words = self.words(done, total)
        if phase == self._phase and self.clock() - self._said_at < LINE_SECONDS:
            return
        self._phase, self._said_at = phase, self.clock()
        self.write(f"{phase}: {done:,} of {total:,} messages, {words}")


@contextmanager
def progress(first: str = "starting Spark") -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows a phase, how much of it is done, and its total. `first`: what is shown
    before it is called."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield Lines().update
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn(),
        MofNCompleteColumn(), TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Bar(*columns, console=out) as bar:
        task = bar.add_task(first, total=1, words="-")
        pace = Pace()

        def update(phase: str, done: int, total: int) -> None:
            words = pace.words(done, total)
            bar.update(task, description=phase, completed=done, total=max(total, 1), words=words)

        yield update
