"""The result of a check, and the limits beyond which something is a problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from milepost.log.diagnosis import Area, Problem

State: TypeAlias = Literal["ok", "problem", "unknown"]
# This many of one kind are reported one by one; the rest in one line.
TOLD = 5


T = TypeVar("T")


def _limit(default: T, help_: str) -> T:
    """A limit with the help text of the doctor's option for it."""
    limit: T = field(default=default, metadata={"help": help_})
    return limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still healthy. A value beyond its limit is a problem."""

    warn_seconds: float = _limit(10.0, "The horizon is held, or a lock is waited for, this long.")
    lag_seconds: float = _limit(300.0, "A processor or pipeline is this far behind.")
    silent_seconds: float = _limit(120.0, "A running one has not reported for this long.")
    claim_seconds: float = _limit(10.0, "A segment is unclaimed this long while instances run.")
    late_seconds: float = _limit(60.0, "Scheduled jobs or expired locks are overdue this long.")
    due_seconds: float = _limit(3600.0, "A job is due and not taken for this long.")
    dead_letters: int = _limit(0, "A processor or pipeline has more dead letters than this.")
    parked_keys: int = _limit(0, "A processor has more parked keys than this.")
    dead_jobs: int = _limit(0, "More jobs than this are dead.")
    schedule_seconds: float = _limit(60.0, "A schedule is overdue by this long.")
    archive_seconds: float = _limit(7200.0, "A message waits this long to be archived.")
    sequence_percent: float = _limit(
        75.0, "This much of a sequence, or of transaction ids, is used."
    )
    dead_rows: int = _limit(10_000_000, "Vacuum has more rows than this to remove from one table.")
    disk_gb: float = _limit(100.0, "The schema uses more disk than this.")
    look_seconds: float = _limit(30.0, "A check takes longer than this; its result is unknown.")
    ignored: frozenset[str] = frozenset()  # processors, pipelines and channels


@dataclass(frozen=True, slots=True)
class Check:
    """One area: its state in one line, and its problems."""

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
