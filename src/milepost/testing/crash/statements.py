"""The statements of a run, and the points at which the next runs are killed. Pure.

A statement is known by its text and by how often this text came before: threads may run in another
order in the next run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

# before, after: the process is killed. lost: the connection is lost before the statement, so the
# server rolls back. cut: the server has committed, but its answer is lost with the connection. The
# process survives both, with everything that it holds in memory.
Side: TypeAlias = Literal["before", "after", "lost", "cut"]
SURVIVED: Final = ("lost", "cut")
Key: TypeAlias = "tuple[str, int]"
# Not a statement: where code of the user is called for the first time.
FIRST_CALL: Final[tuple[Key, Side]] = (("the first call of the handler", 1), "before")
LONGEST_SHOWN = 100
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """`where`: the line of the user's code that sent it; None if Milepost did by itself.
    `is_durable`: no transaction was open after it. `follows_user`: code of the user ran since the
    statement before it."""

    number: int
    text: str
    occurrence: int
    where: str | None
    connection: int
    is_durable: bool
    follows_user: bool

    @property
    def key(self) -> Key:
        return self.text, self.occurrence

    @property
    def is_near_user(self) -> bool:
        return self.follows_user or self.where is not None

    @property
    def ends_transaction(self) -> bool:
        return self.text == COMMIT


@dataclass(frozen=True, slots=True)
class Point:
    statement: Statement
    side: Side


BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
SAVEPOINT, RELEASE = "SAVEPOINT", "RELEASE SAVEPOINT"


def in_both(first: Sequence[Statement], second: Sequence[Statement]) -> list[Statement]:
    """The statements of the first run that the second had too: how often something is looked for
    while nothing is there may differ."""
    known = {statement.key for statement in second}
    return [statement for statement in first if statement.key in known]


def around_handler(statements: Sequence[Statement]) -> list[Statement]:
    """Without those with which Milepost starts: from the last one that is durable before code of
    the user is called for the first time. All of them, if none is called."""
    first = next((n for n, each in enumerate(statements) if each.is_near_user), 0)
    while first > 0 and not statements[first - 1].is_durable:
        first -= 1
    return list(statements[max(first - 1, 0) :])


def points_of(statements: Iterable[Statement]) -> list[Point]:
    """Before each statement, and after each that is durable then; the connection is lost where the
    user's code may have changed what the process holds, and before and after each commit.

    A crash after a statement in an open transaction leaves what a crash before it leaves: the
    server rolls it back. A crash before a statement leaves what a crash after the one before it
    leaves, unless code of the user ran in between, which may have changed something elsewhere.
    """
    points: list[Point] = []
    for statement in statements:
        is_covered = (
            bool(points) and points[-1].side in ("after", "cut") and not statement.follows_user
        )
        if not is_covered:
            points.append(Point(statement, "before"))
        if statement.is_near_user or statement.ends_transaction:
            points.append(Point(statement, "lost"))
        if statement.is_durable:
            points.append(Point(statement, "after"))
        if statement.ends_transaction:
            points.append(Point(statement, "cut"))
    return points


def users_first(points: Iterable[Point]) -> list[Point]:
    """Around what the user's code does, there is most to find. A process that lives on after a lost
    connection takes longest. Otherwise in order."""
    return sorted(points, key=lambda p: (not p.statement.is_near_user, p.side in SURVIVED))


def chosen(points: Sequence[Point], most: int | None) -> list[Point]:
    """At most that many: of those around the user's code first, each at equal distances."""
    if most is None or len(points) <= most:
        return list(points)
    near = [point for point in points if point.statement.is_near_user]
    far = [point for point in points if not point.statement.is_near_user]
    first = _evenly(near, most)
    return [*first, *_evenly(far, most - len(first))]


def _evenly(points: Sequence[Point], most: int) -> Sequence[Point]:
    if len(points) <= most:
        return points
    return [points[number * len(points) // most] for number in range(most)]


def own_connections(statements: Iterable[Statement]) -> set[int]:
    """The connections on which only the user's code has sent statements."""
    users: dict[int, bool] = {}
    for statement in statements:
        users[statement.connection] = users.get(statement.connection, True) and bool(
            statement.where
        )
    return {connection for connection, is_own in users.items() if is_own}


def plain_text(query: str) -> str:
    """Without comments and line breaks."""
    return " ".join(_COMMENT.sub("", query).split())


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class Occurrences:
    """Numbers equal texts."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def next(self, text: str) -> int:
        self._seen[text] += 1
        return self._seen[text]
