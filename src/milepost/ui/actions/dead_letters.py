"""What operators do with dead letters and parked keys: retry and drop, singly and by filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.processors.set_aside import dead_letters
from milepost.ui.action import Action
from milepost.ui.actions.fields import optional_text, wholes
from milepost.words import count

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.ui.actions.fields import Fields

AT_MOST = 1_000_000


def retry(conn: Connection, schema: str, fields: Fields) -> str:
    return _retried(dead_letters.request_retry(conn, schema, wholes(fields, "ids")))


def drop(conn: Connection, schema: str, fields: Fields) -> str:
    return _dropped(dead_letters.drop(conn, schema, wholes(fields, "ids")))


def retry_matching(conn: Connection, schema: str, fields: Fields) -> str:
    return _retried(dead_letters.request_retry(conn, schema, _matching(conn, schema, fields)))


def drop_matching(conn: Connection, schema: str, fields: Fields) -> str:
    return _dropped(dead_letters.drop(conn, schema, _matching(conn, schema, fields)))


def _matching(conn: Connection, schema: str, fields: Fields) -> list[int]:
    """Those of a processor or pipeline, of a key, with a search; all, without any of them."""
    processor, key = optional_text(fields, "processor"), optional_text(fields, "key")
    search = optional_text(fields, "search")
    found = dead_letters.list_dead_letters(conn, schema, processor, AT_MOST, key, search=search)
    return [letter.id for letter in found]


def _retried(number: int) -> str:
    verb = "is" if number == 1 else "are"
    return f"{count(number, 'dead letter')} {verb} retried by the running processor."


def _dropped(number: int) -> str:
    return f"{count(number, 'dead letter')} dropped."


_BEHIND = "A parked key of which none is left is not parked any more."
ACTIONS = [
    Action("retry-dead-letter", "Retry", retry, subject_field="ids"),
    Action(
        "drop-dead-letter",
        "Drop",
        drop,
        confirm="Drop dead letter {ids} for good? " + _BEHIND,
        subject_field="ids",
    ),
    Action("retry-dead-letters", "Retry all that match", retry_matching, subject_field="processor"),
    Action(
        "drop-dead-letters",
        "Drop all that match",
        drop_matching,
        confirm="Drop all dead letters that match the filter (processor: {processor}, key: {key}, "
        "search: {search}) "
        "for good? " + _BEHIND,
        subject_field="processor",
    ),
]
