"""Our queries in the paramstyles of other drivers.

A query has psycopg's `%(name)s` and `%(name)b`, each with a cast to its type. What could be sent in
several ways is sent as text and cast by the server: programs register codecs of their own for json
or uuid, and would encode our text a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.drivers.driver import Copy

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from milepost.db import Statement

# How a driver takes a statement: the query, and what it is given beside.
Paramstyle: TypeAlias = "Callable[[Statement | Copy], tuple[str, Any]]"
_Convert: TypeAlias = Callable[[Any], Any]
_PARAMETER = re.compile(r"%\((?P<name>\w+)\)[sbt](?:::(?P<type>\w+)(?P<array>\[\])?)?|%%")


def _interval(value: timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def _time(value: datetime) -> str:
    return value.isoformat()


_AS_TEXT: dict[str, _Convert] = {
    "uuid": str,
    "json": str,
    "timestamptz": _time,
    "interval": _interval,
}


@dataclass(frozen=True, slots=True)
class _Query:
    text: str
    names: tuple[str, ...]
    converts: tuple[_Convert | None, ...]

    def values(self, parameters: dict[str, Any]) -> list[Any]:
        return [
            value if convert is None or value is None else convert(value)
            for convert, value in zip(
                self.converts, map(parameters.__getitem__, self.names), strict=True
            )
        ]


def numbered(step: Statement | Copy) -> tuple[str, tuple[Any, ...]]:
    """For asyncpg: `$1`, and the values in that order."""
    query, parameters = _statement(step)
    translated = _numbered(query)
    return translated.text, tuple(translated.values(parameters))


def interpolated(step: Statement | Copy) -> tuple[str, dict[str, Any]]:
    """For psycopg2: `%(name)s`."""
    query, parameters = _statement(step)
    translated = _interpolated(query)
    return translated.text, dict(zip(translated.names, translated.values(parameters), strict=True))


def unchanged(step: Statement | Copy) -> tuple[str, dict[str, Any]]:
    """For psycopg 3, where a library runs the query."""
    query, parameters = _statement(step)
    return query.decode(), parameters


def _statement(step: Statement | Copy) -> Statement:
    if isinstance(step, Copy):
        raise TypeError("Only psycopg 3 copies: the plan was made for another driver.")
    return step


@lru_cache(maxsize=256)
def _numbered(query: bytes) -> _Query:
    names: dict[str, int] = {}

    def placed(match: re.Match[str], type_: str, array: str) -> str:
        number = names.setdefault(match["name"], len(names) + 1)
        sent = f"text{array}::" if type_ in _AS_TEXT else ""
        return f"${number}::{sent}{type_}{array}"

    return _translated(query, placed, percent="%")


@lru_cache(maxsize=256)
def _interpolated(query: bytes) -> _Query:
    def placed(match: re.Match[str], type_: str, array: str) -> str:
        return f"%({match['name']})s::{type_}{array}"

    return _translated(query, placed, percent="%%")


def _translated(
    query: bytes, placed: Callable[[re.Match[str], str, str], str], percent: str
) -> _Query:
    converts: dict[str, _Convert | None] = {}

    def replace(match: re.Match[str]) -> str:
        if match["name"] is None:
            return percent
        if match["type"] is None:
            raise ValueError(f"The parameter {match['name']!r} has no cast, in {query!r}.")
        convert, array = _AS_TEXT.get(match["type"]), match["array"] or ""
        converts[match["name"]] = _each(convert) if convert and array else convert
        return placed(match, match["type"], array)

    text = _PARAMETER.sub(replace, query.decode())
    return _Query(text, tuple(converts), tuple(converts.values()))


def _each(convert: _Convert) -> _Convert:
    return lambda values: [None if value is None else convert(value) for value in values]
