"""The state of the log: the facts that `milepost doctor` shows, and the problems among them. Pure;
diagnose.py reads the facts. Unknown is a problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost.errors import NotMigrated, SchemaTooNew, schema_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from milepost.log.read import Horizon
    from milepost.records import Position
    from milepost.sql import LogOrder

# Created only on request, by these options of `milepost migrate`.
INDEX_OPTIONS = {"messages_key": "--with-key-index", "messages_id": "--with-id-index"}
Area: TypeAlias = Literal[
    "server", "schema", "log", "horizon", "locks", "advisory", "processors", "claims", "pipelines",
    "queue", "schedules", "archive", "sequences", "disk",
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
    """The contents of the log. The count of a long log is an estimate."""

    order: LogOrder
    messages: int
    is_exact: bool
    newest: Position | None
    newest_age_seconds: float | None
    incomplete_indexes: tuple[str, ...] = ()


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
        """Whether the state and the age of the session are hidden from us; the server shows
        `disabled` for a session with track_activities = off."""
        return self.age_seconds is None and self.state in (None, "disabled")

    @property
    def is_outside_transactions(self) -> bool:
        """Whether it holds a session-level lock, which is not released by a transaction's end."""
        return self.age_seconds is None and not self.is_hidden


@dataclass(frozen=True, slots=True)
class LockSession:
    """A session that waits for a lock, or that holds one for which another session waits."""

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
    """What is wrong or unknown, and what to do about it."""

    area: Area
    what: str
    remedy: str
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The facts at one moment. Without contents: the schema does not fit this code, or they are
    `unseen`. Without a horizon: the log cannot be read here, and `refusal` says why."""

    schema: str
    migration: int | None
    needed_migration: int
    server: Server
    contents: Contents | None = None
    horizon: Horizon | None = None
    refusal: str | None = None
    holders: tuple[Holder, ...] = ()
    oldest_code: int = 0  # the last migration that code must know to run on this schema
    hidden_transactions: int = 0  # of other users; they may hold the horizon but are not listed
    locks: tuple[LockSession, ...] = ()
    unseen: tuple[Problem, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether this code can read the schema."""
        return not any(self._misfits())

    @property
    def waiting(self) -> list[LockSession]:
        """The sessions that wait for a lock, the longest wait first."""
        found = [session for session in self.locks if session.is_waiting]
        return sorted(found, key=lambda session: -(session.waited_seconds or 0.0))

    @property
    def blocking(self) -> list[LockSession]:
        """The sessions that others wait for and that do not wait themselves: the root cause."""
        return [session for session in self.locks if not session.is_waiting]

    @property
    def held_seconds(self) -> float | None:
        """The age of the oldest transaction that holds the horizon; None: none, or unknown."""
        return max((h.age_seconds for h in self.holders if h.age_seconds is not None), default=None)

    def problems(self, warn_seconds: float) -> list[Problem]:
        """What prevents normal appending and reading."""
        return [
            *self._misfits(),
            *self._refusals(),
            *self._incomplete(),
            *self._holds(warn_seconds),
            *self._waits(warn_seconds),
            *self.unseen,
        ]

    def _misfits(self) -> Iterator[Problem]:
        if self.migration is None or self.migration < self.needed_migration:
            misfit = NotMigrated(self.schema, self.migration, self.needed_migration)
            command = f"milepost migrate{schema_option(self.schema)}"
            yield Problem("schema", first_sentence(misfit), command)
        elif self.needed_migration < self.oldest_code:
            newer = SchemaTooNew(self.schema, self.migration, self.needed_migration)
            yield Problem("schema", first_sentence(newer), "pip install --upgrade milepost")

    def _refusals(self) -> Iterator[Problem]:
        if self.server.is_standby:
            yield Problem(
                "server",
                self.refusal or "This is a standby: what holds the horizon is not visible here",
                "connect to the primary",
            )
        elif self.refusal is not None:
            yield Problem("log", self.refusal, f"milepost rebase{schema_option(self.schema)}")

    def _incomplete(self) -> Iterator[Problem]:
        for name in () if self.contents is None else self.contents.incomplete_indexes:
            option = INDEX_OPTIONS.get(name)
            command = f"milepost migrate {option}{schema_option(self.schema)}"
            yield Problem(
                "log",
                f"The index {name} is not complete: it is being created, or its creation was "
                "interrupted",
                f"if no session creates it: {command if option else f'reindex index {name}'}",
            )

    def _holds(self, warn_seconds: float) -> Iterator[Problem]:
        if self.horizon is None:
            return
        held_seconds = self.held_seconds
        if held_seconds is not None and held_seconds >= warn_seconds:
            yield Problem(
                "horizon",
                f"The horizon has been held back for {held_seconds:.0f} s: what was appended since "
                "is not read until the transactions that hold it end",
                "wait for them, or run the command that is shown with each",
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
            f"wait for them, or: {command}" if pids else "select * from pg_prepared_xacts",
        )


def first_sentence(error: Exception) -> str:
    """What happened, without the advice, which is the remedy."""
    sentence = str(error).partition(". ")[0]
    return sentence[:1].upper() + sentence[1:]
