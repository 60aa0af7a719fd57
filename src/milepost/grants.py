"""The minimal privileges of a role for each activity.

The privileges are SQL, one file per activity in `sql/grants/`; this module combines them. `grant`
runs the same statements that `milepost grant` prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from psycopg.sql import Identifier, Literal

from milepost import db, sql
from milepost.errors import NotPermitted, UnknownRole
from milepost.sql import Activity

if TYPE_CHECKING:
    from psycopg.errors import Diagnostic

    from milepost.db import Connection

ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
# An activity includes others: a scheduler puts jobs, a processor reads.
_INCLUDED: Mapping[Activity, Sequence[Activity]] = {
    "process": ["read"],
    "work": ["put"],
    "pipeline": ["read"],
    "archive": ["process", "read"],
    "operate": ["read", "metrics"],
}
# PostgreSQL's warning that the current role may grant only some of it, or nothing.
_NOT_GRANTED = "01007"
_ROLE = re.compile(r"\{role(_name)?\}")


def script(role: str, activities: Sequence[Activity], schema: str) -> str:
    """The statements as one transaction, for psql."""
    return f"begin;\n{statements(role, activities, schema)}commit;\n"


def grant(conn: Connection, role: str, activities: Sequence[Activity], schema: str) -> None:
    """Grant all of it or nothing. Safe to repeat."""
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
    (exists,) = db.one(conn.execute(sql.query("role_exists"), {"role": role}).fetchone())
    if not exists:
        raise UnknownRole(role)


def statements(role: str, activities: Sequence[Activity], schema: str) -> str:
    wanted = {each for activity in activities for each in (activity, *_INCLUDED.get(activity, ()))}
    parts = [sql.grants("any"), *(sql.grants(each) for each in ACTIVITIES if each in wanted)]
    text = sql.render("\n".join(parts), schema)
    # The role is filled in last, and in one go: its name may be {schema}.
    names = {"{role}": Identifier(role).as_string(), "{role_name}": Literal(role).as_string()}
    return _ROLE.sub(lambda found: names[found[0]], text)
