"""How the log is: the facts that `milepost doctor` shows, and what is wrong among them.

Reading the facts works on every database, migrated or not, restored or not, and under every role:
what cannot be known is None, and `unseen` says why. Judging them is pure. Unknown is a problem.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from psycopg.rows import args_row, class_row

from milepost import db, sql
from milepost.errors import LogRestored, NotMigrated, ReadOnStandby, SchemaTooNew
from milepost.log.read import Horizon, horizon
from milepost.log.seeing import LOOK_SECONDS, limited, see
from milepost.records import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from milepost.db import Connection
    from milepost.sql import LogOrder

# Counting fewer rows than this takes a few milliseconds.
COUNT_UP_TO = 10_000
T = TypeVar("T")
# An appender that commits while it is looked at has a lock and no transaction for an instant. One
# that has none at every look keeps its lock outside of any.
FURTHER_LOOKS = 3
BETWEEN_LOOKS_SECONDS = 0.1
Area: TypeAlias = Literal[
    "server", "schema", "log", "horizon", "locks", "processors", "claims", "pipelines", "queue",
    "schedules", "sequences", "disk",
]  # fmt: skip


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

    @property
    def is_hidden(self) -> bool:
        """Whether we may not see what the session does, nor since when; `disabled` is what the
        server shows of one with track_activities = off."""
        return self.age_seconds is None and self.state in (None, "disabled")

    @property
    def is_outside_transactions(self) -> bool:
        """Whether it holds a lock of its session, which no end of a transaction releases."""
        return self.age_seconds is None and not self.is_hidden


@dataclass(frozen=True, slots=True)
class LockSession:
    """A session that waits for a lock, or for whose lock another one waits."""

    pid: int
    application: str | None
    username: str | None
    database: str | None
    state: str | None
    age_seconds: float | None
    query: str | None
    waited_seconds: float | None
    blocked_by: list[int]  # 0: a prepared transaction

    @property
    def is_waiting(self) -> bool:
        return bool(self.blocked_by)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or cannot be known, and what to do about it."""

    area: Area
    what: str
    remedy: str
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that could not be read, and why."""

    area: Area
    reason: str
    remedy: str

    def problem(self) -> Problem:
        return Problem(self.area, f"Could not look: {self.reason}", self.remedy, is_unknown=True)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The facts, as of one moment. Without contents: the schema does not fit this code, or they
    are `unseen`. Without a horizon: the log cannot be read here, and `refusal` says why."""

    schema: str
    migration: int | None
    needed_migration: int
    server: Server
    contents: Contents | None = None
    horizon: Horizon | None = None
    refusal: str | None = None
    holders: tuple[Holder, ...] = ()
    oldest_code: int = 0  # the last migration that code must know to run on this schema
    hidden_transactions: int = 0  # of other users, which may hold the horizon and are not listed
    locks: tuple[LockSession, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether this code can read the schema."""
        return not any(self._misfits())

    @property
    def waiting(self) -> list[LockSession]:
        """Who waits for a lock, the longest first."""
        found = [session for session in self.locks if session.is_waiting]
        return sorted(found, key=lambda session: -(session.waited_seconds or 0.0))

    @property
    def blocking(self) -> list[LockSession]:
        """For whom others wait, and who waits for nobody: where to begin."""
        return [session for session in self.locks if not session.is_waiting]

    @property
    def held_seconds(self) -> float | None:
        """The age of the oldest transaction that holds the horizon; None: none, or not known."""
        return max((h.age_seconds for h in self.holders if h.age_seconds is not None), default=None)

    def problems(self, warn_seconds: float) -> list[Problem]:
        """What keeps the log from being appended to and read as it should be."""
        return [
            *self._misfits(),
            *self._refusals(),
            *self._holds(warn_seconds),
            *self._waits(warn_seconds),
            *(unseen.problem() for unseen in self.unseen),
        ]

    def _misfits(self) -> Iterator[Problem]:
        if self.migration is None or self.migration < self.needed_migration:
            misfit = NotMigrated(self.schema, self.migration, self.needed_migration)
            option = "" if self.schema == sql.DEFAULT_SCHEMA else f" --schema {self.schema}"
            yield Problem("schema", _first_sentence(misfit), f"milepost migrate{option}")
        elif self.needed_migration < self.oldest_code:
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
        if self.horizon is None:
            return
        held_seconds = self.held_seconds
        if held_seconds is not None and held_seconds >= warn_seconds:
            yield Problem(
                "horizon",
                f"The horizon has been held back for {held_seconds:.0f} s: what was appended since "
                "is not read before the transactions that hold it end",
                "let them end, or run the command that is shown with each",
            )
        if lasting := [holder for holder in self.holders if holder.is_outside_transactions]:
            pids = ", ".join(str(holder.pid) for holder in lasting)
            yield Problem(
                "horizon",
                f"The horizon is held by a lock outside of any transaction (pid {pids}): it stays "
                "until the session ends",
                "end the session with the command that is shown with it",
            )
        hidden = sum(holder.is_hidden for holder in self.holders) + self.hidden_transactions
        if hidden:
            number = "1 transaction" if hidden == 1 else f"{hidden} transactions"
            yield Problem(
                "horizon",
                f"The age of {number} that may hold the horizon is hidden from the role "
                f"{self.server.username}",
                f"grant pg_read_all_stats to {self.server.username}",
                is_unknown=True,
            )

    def _waits(self, warn_seconds: float) -> Iterator[Problem]:
        late = [s for s in self.waiting if (s.waited_seconds or 0.0) >= warn_seconds]
        if not late:
            return
        seconds = late[0].waited_seconds or 0.0
        number = "1 session has" if len(late) == 1 else f"{len(late)} sessions have"
        pids = [session.pid for session in self.blocking]
        behind = f", behind pid {', '.join(map(str, pids))}" if pids else ""
        command = "; ".join(f"select pg_terminate_backend({pid})" for pid in pids)
        yield Problem(
            "locks",
            f"{number} waited for locks for up to {seconds:.0f} s{behind}",
            f"let that end, or: {command}" if pids else "select * from pg_prepared_xacts",
        )


def diagnose(
    conn: Connection, schema: str = sql.DEFAULT_SCHEMA, look_seconds: float = LOOK_SECONDS
) -> Diagnosis:
    """Raises where nothing can be known: no server, or no right to look at the schema at all.
    `look_seconds`: how long each look may take, so that somebody's lock does not stop this."""
    with limited(conn, look_seconds):
        server = _server(conn)
        migration = db.applied_number(conn, schema)
        oldest_code = 0 if migration is None else db.oldest_code(conn, schema)
    found = Diagnosis(
        schema, migration, sql.migrations()[-1].number, server, oldest_code=oldest_code
    )
    if not found.fits:
        return found
    unseen: list[Unseen] = []

    def look(area: Area, read: Callable[[], T]) -> T | None:
        answer, why = see(conn, schema, server.username, read, look_seconds)
        if why is not None:
            unseen.append(Unseen(area, why.reason, why.remedy))
        return answer

    contents = look("log", lambda: _contents(conn, schema))
    seen, refusal = look("horizon", lambda: _horizon(conn, schema)) or (None, None)
    holders = without_ending(lambda: look("horizon", lambda: _holders(conn, schema)) or ())
    hidden = 0
    if contents is not None and contents.order == "transaction":
        hidden = look("horizon", lambda: _hidden(conn)) or 0
    locks = look("locks", lambda: _locks(conn, schema)) or ()
    return replace(
        found, contents=contents, horizon=seen, refusal=refusal, holders=holders,
        hidden_transactions=hidden, locks=locks, unseen=tuple(unseen),
    )  # fmt: skip


def without_ending(look: Callable[[], tuple[Holder, ...]]) -> tuple[Holder, ...]:
    """The holders, without those that were ending as they were looked at."""
    holders = look()
    for _ in range(FURTHER_LOOKS):
        if not any(holder.is_outside_transactions for holder in holders):
            break
        time.sleep(BETWEEN_LOOKS_SECONDS)
        again = {holder.pid for holder in look() if holder.is_outside_transactions}
        holders = tuple(h for h in holders if not h.is_outside_transactions or h.pid in again)
    return holders


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
        with conn.transaction():
            return horizon(conn, schema), None
    except (LogRestored, ReadOnStandby) as refused:
        return None, _first_sentence(refused)


def _holders(conn: Connection, schema: str) -> tuple[Holder, ...]:
    with conn.cursor(row_factory=args_row(Holder)) as cursor:
        return tuple(cursor.execute(sql.query("diagnosis_holders", schema)).fetchall())


def _hidden(conn: Connection) -> int:
    (number,) = _one(conn.execute(sql.query("diagnosis_hidden")).fetchone())
    return int(number)


def _locks(conn: Connection, schema: str) -> tuple[LockSession, ...]:
    with conn.cursor(row_factory=args_row(LockSession)) as cursor:
        return tuple(cursor.execute(sql.query("diagnosis_locks", schema)).fetchall())


def _first_sentence(error: Exception) -> str:
    """What happened; the advice that follows is said once, as the remedy."""
    sentence = str(error).partition(". ")[0]
    return sentence[:1].upper() + sentence[1:]


def _one(row: Any) -> Any:
    if row is None:
        raise RuntimeError("A query that always answers with one row answered with none.")
    return row
