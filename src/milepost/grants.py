"""What a role may do, by activity: the least privileges for it.

The privileges are SQL, a file for each activity in `sql/grants/`; here they are put together. What
`grant` runs and what `milepost grant` prints is the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from psycopg.sql import Identifier

from milepost import db, sql
from milepost.errors import NotPermitted, UnknownRole
from milepost.sql import Activity

if TYPE_CHECKING:
    from psycopg.errors import Diagnostic

    from milepost.db import Connection

ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
# Whoever does the one does the others too: a scheduler puts jobs, a processor reads.
_INCLUDED: Mapping[Activity, Sequence[Activity]] = {
    "process": ["read"],
    "work": ["put"],
    "pipeline": ["read"],
    "operate": ["read", "metrics"],
}
# A warning of PostgreSQL's: whoever grants may grant some of it, or nothing.
_NOT_GRANTED = "01007"


def script(role: str, activities: Sequence[Activity], schema: str) -> str:
    """The statements as one transaction, as psql runs it."""
    return f"begin;\n{statements(role, activities, schema)}commit;\n"


def grant(conn: Connection, role: str, activities: Sequence[Activity], schema: str) -> None:
    """Grant all of it or nothing. Harmless when it is granted already."""
    refuse_unknown(conn, role)
    refused: list[str] = []

    def notice(found: Diagnostic) -> None:
        if found.sqlstate == _NOT_GRANTED:
            refused.append(found.message_primary or "")

    conn.add_notice_handler(notice)
    try:
        with db.translated(schema), conn.transaction():
            conn.execute(statements(role, activities, schema).encode())
            if refused:
                raise NotPermitted(refused[0], schema)
    finally:
        conn.remove_notice_handler(notice)


def refuse_unknown(conn: Connection, role: str) -> None:
    row = conn.execute(sql.query("role_exists"), {"role": role}).fetchone()
    if not db.one(row)[0]:
        raise UnknownRole(role)


def statements(role: str, activities: Sequence[Activity], schema: str) -> str:
    wanted = {each for activity in activities for each in (activity, *_INCLUDED.get(activity, ()))}
    parts = [sql.grants("any"), *(sql.grants(each) for each in ACTIVITIES if each in wanted)]
    text = sql.render("\n".join(parts), schema)
    return text.replace(
        "{role}", Identifier(role).as_string()
    )  # last: a role may be called {schema}
