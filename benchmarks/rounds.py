"""Take turns: every side once a round, beginning with another one each time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Name = TypeVar("Name")


def alternate(sides: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, list[float]]:
    """What each side measured, round by round."""
    names = list(sides)
    measured: dict[Name, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            measured[name].append(sides[name]())
    return measured


def per_second(count: int, work: Callable[[], object]) -> float:
    """How many of the `count` things that `work` does are done in a second."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)
