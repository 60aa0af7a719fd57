"""Everything that handlers change in a database, as values that can be compared: the rows of the
user's tables, the messages, the jobs and the dead letters.

Rows are compared as multisets: the order of a table means nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from psycopg.sql import Identifier

from milepost import db, sql

if TYPE_CHECKING:
    from milepost.db import Connection

Row: TypeAlias = "dict[str, Any]"  # values as JSON has them
MESSAGES, JOBS, DEAD_LETTERS = "milepost.messages", "milepost.jobs", "milepost.dead_letters"
OUTSIDE = "outside the database"
_OWN = {
    MESSAGES: "testing_messages",
    JOBS: "testing_jobs",
    DEAD_LETTERS: "testing_dead_letters",
}
_IN_HEX = ("content", "state", "result")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`rows` by table. `generated`: the columns of each whose values PostgreSQL makes by itself."""

    rows: Mapping[str, list[Row]]
    generated: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Difference:
    """How the rows of one table differ: those that are too many, and those that are missing."""

    table: str
    expected_count: int
    found_count: int
    extra: tuple[Row, ...]
    missing: tuple[Row, ...]


def take_snapshot(conn: Connection, schema: str) -> Snapshot:
    rows: dict[str, list[Row]] = {}
    generated: dict[str, frozenset[str]] = {}
    for namespace, name, columns in db.fetch_all(conn, schema, "testing_tables", internal=schema):
        table = name if namespace == "public" else f"{namespace}.{name}"
        rows[table] = _rows(conn, _rows_of(namespace, name))
        generated[table] = frozenset(columns)
    for table, query in _OWN.items():
        rows[table] = [_decoded(row) for row in _rows(conn, sql.query(query, schema))]
    return Snapshot(rows, generated)


def difference_of(
    table: str, expected: Iterable[Row], found: Iterable[Row], ignored: frozenset[str] = frozenset()
) -> Difference | None:
    """None if the rows are the same, apart from the ignored columns. Pure."""
    before, after = _counted(expected, ignored), _counted(found, ignored)
    if before == after:
        return None
    extra, missing = _thawed(after - before), _thawed(before - after)
    return Difference(table, before.total(), after.total(), extra, missing)


def unstable_columns(first: Iterable[Row], second: Iterable[Row]) -> frozenset[str]:
    """The columns whose values differ between two runs that should be alike. Pure."""
    rows, others = list(first), list(second)
    names = {name for row in (*rows, *others) for name in row}
    return frozenset(name for name in names if _values(rows, name) != _values(others, name))


def ignored_columns(
    first: Snapshot, second: Snapshot, ignore: frozenset[str]
) -> dict[str, frozenset[str]]:
    """By table: those that the user names, those that PostgreSQL fills in, and those that differ
    between two runs without a crash. Pure."""
    found: dict[str, frozenset[str]] = {}
    for table, rows in second.rows.items():
        named = {name for name in ignore if "." not in name} | {
            name.removeprefix(f"{table}.") for name in ignore if name.startswith(f"{table}.")
        }
        before = first.rows.get(table, [])
        existing = {column for row in (*before, *rows) for column in row}
        unstable = frozenset[str]()
        if len(before) == len(rows) and table != OUTSIDE:
            unstable = unstable_columns(before, rows)
        if columns := second.generated.get(table, frozenset()) | unstable | (named & existing):
            found[table] = columns
    return found


def shown(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False)


def _values(rows: list[Row], name: str) -> Counter[str]:
    return Counter(shown({name: row.get(name)}) for row in rows)


def _counted(rows: Iterable[Row], ignored: frozenset[str]) -> Counter[str]:
    return Counter(
        json.dumps({k: v for k, v in row.items() if k not in ignored}, sort_keys=True)
        for row in rows
    )


def _thawed(rows: Counter[str]) -> tuple[Row, ...]:
    return tuple(json.loads(row) for row in sorted(rows.elements()))


def _rows_of(namespace: str, name: str) -> bytes:
    table = Identifier(namespace, name).as_bytes(None)
    return sql.query("testing_rows").replace(b"{table}", table)


def _rows(conn: Connection, query: bytes) -> list[Row]:
    return [json.loads(text) for (text,) in db.plain(conn).execute(query).fetchall()]


def _decoded(row: Row) -> Row:
    return {name: _json_or_text(value) if name in _IN_HEX else value for name, value in row.items()}


def _json_or_text(value: str | None) -> Any:
    """The bytes of a job are JSON, unless a program has put others."""
    if value is None:
        return None
    content = bytes.fromhex(value)
    try:
        return json.loads(content)
    except ValueError:
        return repr(content)
