"""Where the last messages of a selection begin: backwards through the table, and then through the
files of what was removed from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db
from milepost.log.history import files_between
from milepost.pipeline.source import archived
from milepost.pipeline.source.parts import Part, cut
from milepost.pipeline.source.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.source.filters import Conditions

MAX_WALKED = 1_000_000  # the whole log is not searched for a rare selection


@dataclass(frozen=True, slots=True)
class Tail:
    """So many selected messages follow a position. If they are fewer than wanted, there are no
    more, or the search ended."""

    after: Position
    messages: int


def tail(
    conn: Connection,
    schema: str,
    conditions: Conditions,
    newest: Position,
    count: int,
    max_walked: int = MAX_WALKED,
) -> Tail:
    """The last `count` selected messages up to a position. By topics and types only."""
    selected = conditions.parameters()
    walk = {"max_walked": max_walked, **Range(Position.BEGINNING, newest).parameters()}
    wanted = {name: selected[name] for name in ("topics", "types")} | {"max_count": count}
    found, *oldest = db.fetch_one(conn, schema, "range_tail", **walk, **wanted)
    if found == count:
        return Tail(_before(Position(*oldest)), found)
    rows = db.fetch_all(conn, schema, "range_first_walked", **walk)
    if not rows:
        return _in_files(conn, schema, conditions, Tail(newest, 0), count, max_walked)
    begin = Tail(_before(Position(*rows[0][:2])), found)
    is_first = rows[0][2]
    if not is_first:
        return begin
    return _in_files(conn, schema, conditions, begin, count, max_walked)


def _in_files(
    conn: Connection, schema: str, conditions: Conditions, begin: Tail, count: int, max_walked: int
) -> Tail:
    """What the table has begins after `begin`. Only files have what is before."""
    range_ = Range(Position.BEGINNING, begin.after)
    files = files_between(conn, schema, range_.after, range_.last)
    after, left = begin.after, count - begin.messages
    for part in reversed(cut(range_, files)):
        if not left or max_walked <= 0:
            break
        if part.file is None:
            continue  # neither the table nor a file has anything there
        counted = archived.count(part, conditions, part.file.messages + 1, max_walked)
        if counted.last is not None:
            break  # it has too many to look at
        if counted.selected > left:
            after, left = _within(part, conditions, counted.selected - left), 0
            break
        after, left = part.range.after, left - counted.selected
        max_walked -= counted.walked
    return Tail(after, count - left)


def _within(part: Part, conditions: Conditions, number: int) -> Position:
    """The position of a selected message of a part, by its number."""
    counted = archived.count(part, conditions, number, MAX_WALKED)
    return part.range.after if counted.last is None else counted.last


def _before(position: Position) -> Position:
    """A position after which this one is the first."""
    return Position(position.transaction_id, position.position - 1)
