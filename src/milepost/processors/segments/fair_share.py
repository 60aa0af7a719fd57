"""What an instance does with its claims after a beat. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SOON_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Tended:
    """What a beat was answered with: epochs of what is held, by segment id; what operators want;
    the fair share; and when the next claim of others expires."""

    epochs: Mapping[int, int]
    wanted: frozenset[int]
    share: int
    next_expiry_seconds: float | None

    def seconds_to_next(self, beat_seconds: float) -> float:
        """A beat falls just after the expiry of a claim of others, so that it is taken over
        immediately. What has expired and cannot be claimed yet is looked at again soon."""
        if self.next_expiry_seconds is None:
            return beat_seconds
        if self.next_expiry_seconds <= 0:
            return beat_seconds / 4
        return min(beat_seconds, self.next_expiry_seconds + SOON_SECONDS)


@dataclass(frozen=True, slots=True)
class Plan:
    lost: list[int]  # somebody else's by now
    stray: dict[int, int]  # ours for the server, unknown here: from before, given back
    release: list[int]  # wanted by an operator, or above the fair share
    claim: int  # how many to ask for


def plan(tended: Tended, here: Mapping[int, int], leaving: frozenset[int]) -> Plan:
    """`here`: the epochs of the claims that this instance knows it has; `leaving`: those that it
    is giving back already. Of a surplus, the highest ids go."""
    lost = [i for i, epoch in here.items() if tended.epochs.get(i) != epoch and i not in leaving]
    stray = {i: epoch for i, epoch in tended.epochs.items() if here.get(i) != epoch}
    staying = sorted(here.keys() - leaving - set(lost))
    wanted = [i for i in staying if i in tended.wanted]
    kept = [i for i in staying if i not in tended.wanted]
    surplus = kept[tended.share :]
    missing = tended.share - len(kept) - len(leaving)
    return Plan(lost, stray, wanted + surplus, max(0, missing))
