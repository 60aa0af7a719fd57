"""The last hour by seconds and the last day by minutes, of each series, in this process only."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from threading import Lock

HOUR = 3600
DAY_MINUTES = 1440
MAX_SERIES = 600  # of 20 kB each


@dataclass(slots=True)
class Ring:
    """A value for each of the last `size` steps of `step_seconds`; the last one noted in a step
    counts."""

    size: int
    step_seconds: int
    _steps: list[int] = field(init=False)  # which step a slot holds
    # In the order in which they were noted last.
    _values: dict[str, array[float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._steps = [-1] * self.size

    def note(self, at: float, values: Mapping[str, float]) -> None:
        step = int(at) // self.step_seconds
        slot = step % self.size
        if self._steps[slot] != step:
            self._steps[slot] = step
            for kept in self._values.values():
                kept[slot] = nan
        # Those that are known first: what they are about to be told must not look old.
        for name in sorted(values, key=lambda each: each not in self._values):
            is_known = name in self._values
            found = self._values.pop(name) if is_known else self._new(slot)
            if found is not None:
                found[slot] = values[name]
                self._values[name] = found

    def _new(self, slot: int) -> array[float] | None:
        """An empty series. If there are as many as may be, the one noted longest ago ends, unless
        it belongs to this step too."""
        if len(self._values) >= MAX_SERIES:
            oldest = next(iter(self._values))
            if not isnan(self._values[oldest][slot]):
                return None
            del self._values[oldest]
        return array("f", [nan]) * self.size

    def series(self, name: str, until: float, count: int) -> list[float | None]:
        """The last `count` steps up to a time, the oldest first; None: nothing was noted."""
        last = int(until) // self.step_seconds
        kept = self._values.get(name)
        return [self._at(kept, step) for step in range(last - min(count, self.size) + 1, last + 1)]

    def _at(self, kept: array[float] | None, step: int) -> float | None:
        slot = step % self.size
        if kept is None or self._steps[slot] != step or isnan(kept[slot]):
            return None
        return kept[slot]


@dataclass(slots=True)
class History:
    """Both rings. Times are seconds of one clock, which the caller has."""

    by_second: Ring = field(default_factory=lambda: Ring(HOUR, 1))
    by_minute: Ring = field(default_factory=lambda: Ring(DAY_MINUTES, 60))
    now: float = 0.0  # of the last note
    _lock: Lock = field(default_factory=Lock, init=False)  # the sampler writes, pages read

    def note(self, at: float, values: Mapping[str, float]) -> None:
        with self._lock:
            self.now = at
            self.by_second.note(at, values)
            self.by_minute.note(at, values)

    def seconds(self, name: str, count: int = 300) -> list[float | None]:
        with self._lock:
            return self.by_second.series(name, self.now, count)

    def minutes(self, name: str, count: int = DAY_MINUTES) -> list[float | None]:
        with self._lock:
            return self.by_minute.series(name, self.now, count)
