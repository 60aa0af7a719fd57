"""Which position may be stored, of what handlers ask for and report. Pure.

A request only rises. A report is never believed beyond what was consumed. What is stored is
covered by every participant, and never lies below what was stored before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final, Literal, TypeAlias

from milepost.records import Position


class Latest(Enum):
    """A position that is known only when it is looked at: what was consumed by then."""

    LATEST = "latest"

    def __repr__(self) -> str:
        return self.name


LATEST: Final = Latest.LATEST
Request: TypeAlias = "Position | Literal[Latest.LATEST]"
Report: TypeAlias = "Position | Literal[Latest.LATEST] | None"  # None: no advance

# Asks some participants, by their places, for a position; their reports in the same order.
Ask: TypeAlias = "Callable[[Sequence[int], Position], Sequence[Report]]"


class Unreconciled(Exception):
    """Somebody has not reached what must be covered: nothing is stored."""

    def __init__(self, target: Position, behind: list[int], reports: Sequence[Position | None]):
        self.target, self.behind, self.reports = target, behind, reports
        super().__init__(f"{len(behind)} of {len(reports)} have not reached {target}")


def merged(pending: Request | None, new: Request) -> Request:
    """The higher of two requests. Nothing that was consumed is above LATEST."""
    if pending is None:
        return new
    if pending is LATEST or new is LATEST:
        return LATEST
    return max(pending, new)


def within(report: Report, consumed: Position) -> Position | None:
    """A request or a report in terms of what was consumed; beyond it, it is cut."""
    if report is None:
        return None
    return consumed if report is LATEST else min(report, consumed)


def highest(reports: Iterable[Position | None]) -> Position | None:
    """Where the running checkpoint is to go: lower would deliver again what the
    participant that is ahead has made durable. None where nobody advances."""
    return max((report for report in reports if report is not None), default=None)


def lowest(reports: Sequence[Position | None]) -> Position | None:
    """What all have reached: the one safe place at a release, where nobody can be asked again.
    None where somebody has not advanced."""
    positions = [report for report in reports if report is not None]
    return min(positions, default=None) if len(positions) == len(reports) else None


def laggards(reports: Sequence[Position | None], target: Position) -> list[int]:
    """The places of those that have not reached the target."""
    return [n for n, report in enumerate(reports) if report is None or report < target]


def reconciled(
    count: int,
    ask: Ask,
    requested: Position,
    consumed: Position,
    *,
    must_reach: Position | None = None,
) -> Position | None:
    """The position that all participants cover: what must be reached, else the highest report.
    Those behind it are asked once more, for exactly it. None where nobody advances."""
    reports = [within(report, consumed) for report in ask(range(count), requested)]
    target = must_reach or highest(reports)
    if target is None:
        return None
    if behind := laggards(reports, target):
        for n, report in zip(behind, ask(behind, target), strict=True):
            reports[n] = within(report, consumed)
    _refuse_laggards(reports, target)
    if must_reach is not None:
        return target
    return _followed(ask, reports, target, consumed)


def _followed(
    ask: Ask, reports: list[Position | None], target: Position, consumed: Position
) -> Position | None:
    """Where a laggard has made more durable than it was asked for, the others are asked for that,
    once: storing only what they had reported would deliver again what all have by now. Who does not
    follow fails nothing, because the target is covered."""
    ahead = highest(reports) or target
    behind = laggards(reports, ahead)
    for n, report in zip(behind, ask(behind, ahead) if behind else (), strict=True):
        reports[n] = within(report, consumed) or reports[n]  # None: it stays where it is
    _refuse_laggards(reports, target)
    return lowest(reports)


def _refuse_laggards(reports: Sequence[Position | None], target: Position) -> None:
    if behind := laggards(reports, target):
        raise Unreconciled(target, behind, reports)


def advanced(candidate: Position | None, stored: Position) -> Position | None:
    """The regress guard: what may be stored, if anything."""
    return candidate if candidate is not None and candidate > stored else None
