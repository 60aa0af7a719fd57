"""Bring a database to the schema this code needs.

What is to be run is planned as text first, so that `migrate` runs and `migrate --sql` prints
the very same statements. Each step is one transaction under an advisory lock, and plans again
under the lock, so that any number of processes may migrate at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost import db, sql
from milepost.errors import OrderIsFixed, SchemaTooNew

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.sql import LogOrder


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of a migration."""

    name: str
    text: str


def migrate(
    conn: Connection, schema: str = sql.DEFAULT_SCHEMA, order: LogOrder | None = None
) -> list[Step]:
    """Apply what is pending; answers with the steps that this call applied."""
    applied: list[Step] = []
    while True:
        with conn.transaction():
            conn.execute(sql.query("migration_lock", schema), {"schema": schema})
            pending = plan(conn, schema, order)
            if not pending:
                return applied
            conn.execute(pending[0].text.encode())
        applied.append(pending[0])


def plan(conn: Connection, schema: str, order: LogOrder | None = None) -> list[Step]:
    """The steps that are pending, in order. The functions travel with the last migration, so
    that no moment shows new tables with old functions."""
    db.check_server(conn)
    found = db.applied_number(conn, schema) or 0
    known = sql.migrations()[-1].number
    if found > known:
        raise SchemaTooNew(schema, found, known)
    current, checksum = _log_facts(conn, schema) if found else (order or "append", None)
    if order is not None and order != current:
        raise OrderIsFixed(schema, current, order)
    scripts = {f"{m.number:04}_{m.name}": _migration_script(m) for m in _pending(found)}
    functions = sql.functions(current)
    if scripts or checksum != sql.checksum(functions):
        name = next(reversed(scripts), "functions")
        scripts[name] = scripts.get(name, "") + _functions_script(functions)
    return [Step(name, sql.render(text, schema, current)) for name, text in scripts.items()]


def script(steps: list[Step]) -> str:
    """The steps as one SQL script, for people who run migrations by other means."""
    return "\n".join(f"-- {step.name}\nbegin;\n{step.text}\ncommit;\n" for step in steps)


def _pending(found: int) -> list[sql.Migration]:
    return [migration for migration in sql.migrations() if migration.number > found]


def _migration_script(migration: sql.Migration) -> str:
    bootstrap = sql.bootstrap() if migration.number == 1 else ""
    return (
        f"{bootstrap}\n{migration.text}\n"
        "insert into {schema}.migrations (number, name) "
        f"values ({migration.number}, '{migration.name}');\n"
    )


def _functions_script(functions: str) -> str:
    checksum = sql.checksum(functions)
    return f"{functions}\nupdate {{schema}}.log set functions_checksum = '{checksum}';\n"


def _log_facts(conn: Connection, schema: str) -> tuple[LogOrder, str | None]:
    row = conn.execute(sql.query("log_facts", schema)).fetchone()
    if row is None:
        raise RuntimeError(f"The table {schema}.log is empty; it holds one row from migration 1.")
    return row[0], row[1]
