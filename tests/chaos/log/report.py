"""What the torture found. Pure: the truth is what the table held when every writer had ended,
and each reader and each writer's journal is compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from milepost.records import Position


class Entry(NamedTuple):
    """A message: where it stands, and who wrote it as its how-manieth."""

    position: Position
    writer: int
    number: int


@dataclass(frozen=True, slots=True)
class Journal:
    """What one writer knew: what it was about to commit, and how many commits returned. A
    writer that is killed does not know about its last one."""

    writer: int
    attempts: list[list[int]]
    acknowledged: int

    @classmethod
    def parse(cls, writer: int, text: str) -> Journal:
        words = [line.split() for line in text.splitlines()]
        attempts = [[int(n) for n in rest] for word, *rest in words if word == "commit"]
        return cls(writer, attempts, sum(word == ["committed"] for word in words))


@dataclass(frozen=True, slots=True)
class Account:
    """One reader's deviations from what it should have seen."""

    reader: str
    expected: int
    sessions: int
    lost: int
    doubled: int
    out_of_order: int
    never_committed: int

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.out_of_order or self.never_committed)


@dataclass(frozen=True, slots=True)
class Promises:
    """What became of what the writers were told."""

    vanished: int  # acknowledged to a writer and not in the table
    torn: int  # transactions of which only a part is in the table
    unwanted: int  # in the table though its writer rolled it back

    @property
    def are_kept(self) -> bool:
        return not (self.vanished or self.torn or self.unwanted)


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    seconds: float
    messages: int
    transactions: int
    kills: int
    promises: Promises
    accounts: list[Account]

    @property
    def lost(self) -> int:
        return sum(account.lost for account in self.accounts)

    @property
    def is_clean(self) -> bool:
        return self.promises.are_kept and all(account.is_clean for account in self.accounts)

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.messages} messages, "
            f"{self.transactions} acknowledged transactions, {self.kills} writers killed"
        )
        return "\n  ".join([head, str(self.promises), *map(str, self.accounts)])


def account(
    reader: str, expected: Sequence[Entry], seen: Sequence[Entry], sessions: int
) -> Account:
    """With all four figures at 0, what was seen equals what was expected, order included."""
    distinct = set(seen)
    return Account(
        reader,
        len(expected),
        sessions,
        lost=len(set(expected) - distinct),
        doubled=len(seen) - len(distinct),
        out_of_order=descents(entry.position for entry in seen) + disorder_of_writers(seen),
        never_committed=len(distinct - set(expected)),
    )


def descents(positions: Iterable[Position]) -> int:
    return sum(later < earlier for earlier, later in pairwise(positions))


def disorder_of_writers(seen: Sequence[Entry]) -> int:
    """A writer numbers its messages in the order in which it appends them, in both orders."""
    latest: dict[int, int] = {}
    found = 0
    for _, writer, number in seen:
        found += number < latest.get(writer, -1)
        latest[writer] = number
    return found


def check_promises(truth: Sequence[Entry], journals: Iterable[Journal]) -> Promises:
    """What the writers were told, against what is in the table."""
    there: dict[int, set[int]] = {}
    for entry in truth:
        there.setdefault(entry.writer, set()).add(entry.number)
    vanished = torn = unwanted = 0
    for journal in journals:
        numbers = there.get(journal.writer, set())
        acknowledged = journal.attempts[: journal.acknowledged]
        vanished += sum(n not in numbers for attempt in acknowledged for n in attempt)
        torn += sum(0 < len(numbers & set(a)) < len(a) for a in journal.attempts)
        unwanted += len(numbers - {n for attempt in journal.attempts for n in attempt})
    return Promises(vanished, torn, unwanted)
