"""What a check answers, and the limits beyond which something is a problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from milepost.log.diagnosis import Area, Problem

State: TypeAlias = Literal["ok", "problem", "unknown"]
# So many of one kind are told one by one; the rest in one line.
TOLD = 5


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still fine. Ages in seconds."""

    warn_seconds: float = 10.0  # the horizon is held, somebody waits for a lock
    lag_seconds: float = 300.0  # the oldest message that a processor or pipeline has not handled
    silent_seconds: float = 120.0  # without a report of one that runs
    claim_seconds: float = 10.0  # a segment that no instance has claimed while some run
    late_seconds: float = 60.0  # scheduled jobs and expired locks that nobody looked after
    due_seconds: float = 3600.0  # a job that is ready and nobody takes
    dead_jobs: int = 0
    schedule_seconds: float = 60.0  # a tick that is overdue
    sequence_percent: float = 75.0  # of the values that a sequence, or the cluster, can give
    dead_rows: int = 10_000_000  # in one table: vacuum does not keep up
    disk_gb: float = 100.0  # all tables and indexes of the schema
    look_seconds: float = 30.0  # one look of the doctor's own
    ignored: frozenset[str] = frozenset()  # processors, pipelines and channels


@dataclass(frozen=True, slots=True)
class Check:
    """One area: what it is like, in a line, and what is wrong with it."""

    name: Area | Literal["wake-up"]
    detail: str
    problems: tuple[Problem, ...] = ()

    @property
    def state(self) -> State:
        if not self.problems:
            return "ok"
        return "unknown" if all(problem.is_unknown for problem in self.problems) else "problem"

    @property
    def hint(self) -> str | None:
        """What to do first."""
        return self.problems[0].remedy if self.problems else None


def listed(names: list[str]) -> str:
    """a, b, c and 3 more."""
    more = len(names) - TOLD
    return ", ".join(names[:TOLD]) + (f" and {more} more" if more > 0 else "")


def first_line(text: str, width: int = 200) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= width else line[: width - 1] + "…"
