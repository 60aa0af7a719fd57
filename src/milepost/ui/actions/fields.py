"""The fields of forms as values. An empty field is one that was not filled in.

Names and keys are taken as they are: spaces at their ends are part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from psycopg.conninfo import make_conninfo

from milepost import db
from milepost.errors import InvalidField

if TYPE_CHECKING:
    from milepost.db import Connection

Fields: TypeAlias = "Mapping[str, str]"


def text(fields: Fields, name: str) -> str:
    """A field that must be filled in."""
    found = optional_text(fields, name)
    if found is None:
        raise InvalidField(name, "", "something")
    return found


def optional_text(fields: Fields, name: str) -> str | None:
    """PostgreSQL has no NUL, so nothing there is called so."""
    found = fields.get(name, "")
    if "\0" in found:
        raise InvalidField(name, found, "text without the character NUL")
    return found or None


def whole(fields: Fields, name: str) -> int:
    return _whole(name, text(fields, name).strip())


def optional_whole(fields: Fields, name: str) -> int | None:
    found = _written(fields, name)
    return None if found is None else _whole(name, found)


def wholes(fields: Fields, name: str) -> list[int]:
    """Of a field that is sent several times, and is joined by commas: checkboxes."""
    return [_whole(name, part.strip()) for part in text(fields, name).split(",")]


def optional_seconds(fields: Fields, name: str) -> float | None:
    found = _written(fields, name)
    if found is None:
        return None
    try:
        return float(found)
    except ValueError:
        raise InvalidField(name, found, "a number of seconds") from None


def beside(conn: Connection) -> Callable[[], Connection]:
    """Opens further connections like this one, for what must commit by itself."""
    info = make_conninfo(conn.info.dsn, password=conn.info.password or None)
    return partial(db.connect_pooled if db.is_pooled(conn) else db.connect, info)


def _written(fields: Fields, name: str) -> str | None:
    """What somebody has typed, without spaces around it."""
    found = optional_text(fields, name)
    return None if found is None else found.strip() or None


def _whole(name: str, found: str) -> int:
    """Within what PostgreSQL calls bigint."""
    if not (found.isascii() and found.isdigit()) or int(found[:20]) >= 2**63 or len(found) > 19:
        raise InvalidField(name, found, "a whole number")
    return int(found)
