"""What became of the effects. Pure: the log is the truth, effects and balances are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from milepost.records import Position


class Deposit(NamedTuple):
    """A message of the log."""

    position: Position
    account: str
    amount: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """With all figures at 0, the effects equal the log, order included."""

    messages: int
    effects: int
    lost: int
    doubled: int
    made_up: int
    out_of_order: int
    wrong_balances: int

    @property
    def is_clean(self) -> bool:
        return not (
            self.lost or self.doubled or self.made_up or self.out_of_order or self.wrong_balances
        )


def compare(
    log: Sequence[Deposit], effects: Sequence[Position], balances: Mapping[str, int]
) -> Outcome:
    expected = {deposit.position for deposit in log}
    sums: Counter[str] = Counter()
    for deposit in log:
        sums[deposit.account] += deposit.amount
    accounts = sums.keys() | balances.keys()
    return Outcome(
        messages=len(log),
        effects=len(effects),
        lost=len(expected - set(effects)),
        doubled=len(effects) - len(set(effects)),
        made_up=len(set(effects) - expected),
        out_of_order=sum(later < earlier for earlier, later in pairwise(effects)),
        wrong_balances=sum(sums[account] != balances.get(account) for account in accounts),
    )


@dataclass(slots=True)
class Progress:
    """The longest time without progress while there was work, from samples of the checkpoint."""

    longest_seconds: float = 0.0
    _checkpoint: Position | None = None
    _moved_at: float | None = None

    def sample(self, now: float, checkpoint: Position, *, has_work: bool) -> None:
        if self._moved_at is None or checkpoint != self._checkpoint or not has_work:
            self._checkpoint, self._moved_at = checkpoint, now
        self.longest_seconds = max(self.longest_seconds, now - self._moved_at)
