"""How the log is: the facts that `milepost doctor` shows, and what is wrong among them.

Reading the facts works on every database, migrated or not, restored or not: what cannot be
known is None. Judging them is pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from psycopg.rows import args_row, class_row

from milepost import db, sql
from milepost.errors import LogRestored, NotMigrated, ReadOnStandby, SchemaTooNew
from milepost.log.read import Horizon, horizon
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from milepost.db import Connection
    from milepost.sql import LogOrder

# Counting fewer rows than this takes a few milliseconds.
COUNT_UP_TO = 10_000
Area: TypeAlias = Literal["server", "schema", "log", "horizon", "queue"]


@dataclass(frozen=True, slots=True)
class Server:
    """The server and our session on it."""

    version: str
    database: str
    username: str
    is_standby: bool
    is_notifying: bool
    sees_all_sessions: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What the log holds. The count of a long log is an estimate."""

    order: LogOrder
    messages: int
    is_exact: bool
    newest: Position | None
    newest_age_seconds: float | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction that holds the horizon back. A prepared one has no pid."""

    pid: int | None
    prepared: str | None
    application: str | None
    username: str | None
    database: str | None
    state: str | None
    age_seconds: float | None
    query: str | None
    remedy: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and what to do about it."""

    area: Area
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The facts, as of one moment. Without contents: the schema does not fit this code.
    Without a horizon: the log cannot be read here, and `refusal` says why."""

    schema: str
    migration: int | None
    needed_migration: int
    server: Server
    contents: Contents | None = None
    horizon: Horizon | None = None
    refusal: str | None = None
    holders: tuple[Holder, ...] = ()

    @property
    def held_seconds(self) -> float | None:
        """The age of the oldest transaction that holds the horizon; None: none, or not known."""
        return max((h.age_seconds for h in self.holders if h.age_seconds is not None), default=None)

    def problems(self, warn_seconds: float) -> list[Problem]:
        """What keeps the log from being appended to and read as it should be."""
        return [*self._misfits(), *self._refusals(), *self._holds(warn_seconds)]

    def _misfits(self) -> Iterator[Problem]:
        if self.migration is None or self.migration < self.needed_migration:
            misfit = NotMigrated(self.schema, self.migration, self.needed_migration)
            option = "" if self.schema == sql.DEFAULT_SCHEMA else f" --schema {self.schema}"
            yield Problem("schema", _first_sentence(misfit), f"milepost migrate{option}")
        elif self.migration > self.needed_migration:
            newer = SchemaTooNew(self.schema, self.migration, self.needed_migration)
            yield Problem("schema", _first_sentence(newer), "pip install --upgrade milepost")

    def _refusals(self) -> Iterator[Problem]:
        if self.server.is_standby:
            yield Problem(
                "server",
                self.refusal or "This is a standby: what holds the horizon is not seen here",
                "connect to the primary",
            )
        elif self.refusal is not None:
            option = "" if self.schema == sql.DEFAULT_SCHEMA else f" --schema {self.schema}"
            yield Problem("log", self.refusal, f"milepost rebase{option}")

    def _holds(self, warn_seconds: float) -> Iterator[Problem]:
        held_seconds = self.held_seconds
        if self.horizon is None or held_seconds is None or held_seconds < warn_seconds:
            return
        yield Problem(
            "horizon",
            f"The horizon has been held back for {held_seconds:.0f} s: what was appended since "
            "is not read before the transactions that hold it end",
            "let them end, or run the command that is shown with each",
        )


def diagnose(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> Diagnosis:
    server = _server(conn)
    needed = sql.migrations()[-1].number
    migration = db.applied_number(conn, schema)
    if migration != needed:
        return Diagnosis(schema, migration, needed, server)
    with db.translated(schema):
        contents = _contents(conn, schema)
        seen, refusal = _horizon(conn, schema)
        holders = _holders(conn, schema)
    return Diagnosis(schema, migration, needed, server, contents, seen, refusal, holders)


def rebase(conn: Connection, schema: str = sql.DEFAULT_SCHEMA) -> str:
    """Make a restored log this cluster's own; answers with what was done. Safe to repeat."""
    with db.translated(schema):
        (done,) = _one(conn.execute(sql.query("rebase", schema)).fetchone())
    return str(done)


def _server(conn: Connection) -> Server:
    with conn.cursor(row_factory=class_row(Server)) as cursor:
        server = cursor.execute(sql.query("diagnosis_server")).fetchone()
    if server is None:
        raise RuntimeError("The server said nothing about itself.")
    return server


def _contents(conn: Connection, schema: str) -> Contents:
    parameters = {"count_up_to": COUNT_UP_TO}
    row = conn.execute(sql.query("diagnosis_log", schema), parameters).fetchone()
    order, messages, is_exact, transaction_id, position, age_seconds = _one(row)
    newest = None if position is None else Position(transaction_id, position)
    return Contents(order, messages, is_exact, newest, age_seconds)


def _horizon(conn: Connection, schema: str) -> tuple[Horizon | None, str | None]:
    """The horizon, or why there is none here."""
    try:
        return horizon(conn, schema), None
    except (LogRestored, ReadOnStandby) as refused:
        return None, _first_sentence(refused)


def _holders(conn: Connection, schema: str) -> tuple[Holder, ...]:
    with conn.cursor(row_factory=args_row(Holder)) as cursor:
        return tuple(cursor.execute(sql.query("diagnosis_holders", schema)).fetchall())


def _first_sentence(error: Exception) -> str:
    """What happened; the advice that follows is said once, as the remedy."""
    sentence = str(error).partition(". ")[0]
    return sentence[:1].upper() + sentence[1:]


def _one(row: Any) -> Any:
    if row is None:
        raise RuntimeError("A query that always answers with one row answered with none.")
    return row
