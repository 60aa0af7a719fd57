"""Bring a database to the schema this code needs.

The steps are planned as SQL text first, so that `migrate` runs exactly the statements that
`migrate --sql` prints. Each step is one transaction under an advisory lock and is planned again
under that lock, so that several processes may migrate concurrently.

A step that changes a table waits for all sessions that use it, and other sessions then wait behind
the step. So it waits only for a short time, gives up, lets the others continue, and tries again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from psycopg import errors as pg

from milepost import db, sql
from milepost.errors import ForeignMigration, MigrationBlocked, OrderIsFixed, SchemaTooNew
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.sql import LogOrder


WAIT_SECONDS = 60.0
LOCK_TIMEOUT = "200ms"  # how long a step may wait for a lock, and make others wait
PAUSES = Retry(first_seconds=0.2, longest_seconds=5.0, jitter=0.0)


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of a migration; or one statement that no transaction may contain."""

    name: str
    text: str
    is_transaction: bool = True


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that holds locks on tables of the schema; without a pid, a prepared transaction."""

    pid: int | None
    application: str
    user: str
    state: str
    seconds: float | None  # the age of its transaction; None: hidden from us
    tables: Sequence[str]

    def __str__(self) -> str:
        who = "a prepared transaction" if self.pid is None else f"pid {self.pid}"
        what = ", ".join(part for part in (self.application, self.user, self.state) if part)
        age = "" if self.seconds is None else f", for {self.seconds:.0f} s"
        return f"{who} ({what}{age}) on {', '.join(self.tables)}"


OnWait: TypeAlias = Callable[[Sequence[Blocker]], None]


def migrate(
    conn: Connection,
    schema: str = sql.DEFAULT_SCHEMA,
    order: LogOrder | None = None,
    *,
    wait_seconds: float = WAIT_SECONDS,
    on_wait: OnWait = lambda _blockers: None,
) -> list[Step]:
    """Apply pending steps; returns those that this call applied. If tables are in use it retries
    for `wait_seconds`, and passes the sessions that use them to `on_wait` each time."""
    applied: list[Step] = []
    tries, give_up_at = 0, time.monotonic() + wait_seconds
    while True:
        try:
            step = _apply_next(conn, schema, order)
        except (pg.LockNotAvailable, pg.DeadlockDetected) as error:
            blockers = find_blockers(conn, schema)
            tries += 1
            pause = PAUSES.delay_seconds(tries, 0.0)
            if time.monotonic() + pause > give_up_at:
                raise MigrationBlocked(schema, wait_seconds, blockers) from error
            on_wait(blockers)
            time.sleep(pause)
        else:
            if step is None:
                return applied
            applied.append(step)
            tries = 0


def find_blockers(conn: Connection, schema: str) -> list[Blocker]:
    rows = conn.execute(sql.query("migration_blockers", schema), {"schema": schema})
    return [Blocker(*row) for row in rows]


def _apply_next(conn: Connection, schema: str, order: LogOrder | None) -> Step | None:
    with conn.transaction():
        limits = {"schema": schema, "lock_timeout": LOCK_TIMEOUT}
        conn.execute(sql.query("migration_lock", schema), limits)
        pending = plan(conn, schema, order)
        if not pending:
            return None
        conn.execute(pending[0].text.encode())
        return pending[0]


def plan(conn: Connection, schema: str, order: LogOrder | None = None) -> list[Step]:
    """The pending steps, in order. The functions are part of the last migration's step, so that
    new tables are never visible with old functions."""
    db.check_server(conn)
    found = db.applied_number(conn, schema) or 0
    if found:
        _refuse_foreign(conn, schema, found)
    known = sql.migrations()[-1].number
    if found > known:
        if db.may_run_on(conn, schema, known):
            return []
        raise SchemaTooNew(schema, found, known)
    current, checksum = _log_facts(conn, schema) if found else (order or "append", None)
    if order is not None and order != current:
        raise OrderIsFixed(schema, current, order)
    scripts = {
        f"{migration.number:04}_{migration.name}": _migration_script(migration)
        for migration in sql.migrations()
        if migration.number > found
    }
    functions = sql.functions(current)
    if scripts or checksum != sql.checksum(functions):
        name = next(reversed(scripts), "functions")
        scripts[name] = scripts.get(name, "") + _functions_script(functions)
    head = f"set local lock_timeout = '{LOCK_TIMEOUT}';\n"
    return [Step(name, sql.render(head + text, schema, current)) for name, text in scripts.items()]


def _refuse_foreign(conn: Connection, schema: str, found: int) -> None:
    """A number alone does not say that these are our tables: a migration would fail in the middle
    of its work, or, worse, succeed."""
    applied = dict(conn.execute(sql.query("migration_names", schema)).fetchall())
    for known in sql.migrations():
        if known.number <= found and applied.get(known.number) != known.name:
            name = applied.get(known.number)
            raise ForeignMigration(schema, known.number, name, known.name)


def script(steps: list[Step]) -> str:
    """The steps as one SQL script, for users who run migrations with other tools."""
    return "\n".join(map(_scripted, steps))


def _scripted(step: Step) -> str:
    if not step.is_transaction:
        return f"-- {step.name}, outside of a transaction\n{step.text.rstrip()};\n"
    return f"-- {step.name}\nbegin;\n{step.text}\ncommit;\n"


def _migration_script(migration: sql.Migration) -> str:
    return (
        f"{migration.text}\n"
        "insert into {schema}.migrations (number, name) "
        f"values ({migration.number}, '{migration.name}');\n"
    )


def _functions_script(functions: str) -> str:
    checksum = sql.checksum(functions)
    return (
        f"{functions}\nupdate {{schema}}.log "
        f"set functions_digest = '{checksum}', oldest_code = {sql.OLDEST_CODE};\n"
    )


def _log_facts(conn: Connection, schema: str) -> tuple[LogOrder, str | None]:
    order, checksum = db.one(conn.execute(sql.query("log_facts", schema)).fetchone())
    return order, checksum
