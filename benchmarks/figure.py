"""What a figure is: comparisons of something of ours with its baseline, round by round.

Absolute numbers say more about the machine than about the code, so that only ratios have
targets, and each ratio comes from one run in which both sides took turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.workbench import Workbench


@dataclass(frozen=True, slots=True)
class AtLeast:
    ratio: float

    def is_met_by(self, ratio: float) -> bool:
        return ratio >= self.ratio

    def __str__(self) -> str:
        return f">= {self.ratio:g}"


@dataclass(frozen=True, slots=True)
class AtMost:
    ratio: float

    def is_met_by(self, ratio: float) -> bool:
        return ratio <= self.ratio

    def __str__(self) -> str:
        return f"<= {self.ratio:g}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of a figure. Without a target it is there to be known."""

    name: str
    against: str
    unit: str
    ours: Sequence[float]
    baseline: Sequence[float]
    target: AtLeast | AtMost | None = None

    @property
    def ratio(self) -> float:
        """The median of the rounds' own ratios: whatever else the machine did in a round, it
        did to both sides."""
        pairs = zip(self.ours, self.baseline, strict=True)
        return median(ours / baseline for ours, baseline in pairs)

    @property
    def is_met(self) -> bool | None:
        return None if self.target is None else self.target.is_met_by(self.ratio)


class Skipped(Exception):
    """A figure that cannot be measured here, and why: something to compare with is absent."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A name to run it by, what it shows, and how it is measured."""

    name: str
    what: str
    measure: Callable[[Workbench], list[Comparison]]
