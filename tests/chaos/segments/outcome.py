"""What became of the effects. Pure: the log is the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from milepost.records import Position


@dataclass(frozen=True, slots=True)
class Outcome:
    """With all but the first at 0, each effect happened once and in the order of its key."""

    messages: int
    lost: int
    doubled: int
    made_up: int
    out_of_order: int

    @property
    def is_clean(self) -> bool:
        return self.is_clean_but_for_repeats and not self.doubled

    @property
    def is_clean_but_for_repeats(self) -> bool:
        """At least once, each for the first time in the order of its key."""
        return not (self.lost or self.made_up or self.out_of_order)


def compare(log: Sequence[tuple[Position, str]], effects: Sequence[Position]) -> Outcome:
    keys = dict(log)
    return Outcome(
        messages=len(log),
        lost=len(keys.keys() - set(effects)),
        doubled=len(effects) - len(set(effects)),
        made_up=len(set(effects) - keys.keys()),
        out_of_order=_out_of_order(keys, effects),
    )


def _out_of_order(keys: dict[Position, str], effects: Sequence[Position]) -> int:
    """Of those that happened for the first time: who repeats, repeats from an earlier one on."""
    last: dict[str | None, Position] = {}
    found = 0
    for position in dict.fromkeys(effects):
        key = keys.get(position)
        found += position < last.get(key, Position.BEGINNING)
        last[key] = position
    return found
