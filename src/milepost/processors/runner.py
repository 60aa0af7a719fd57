"""Keep a processor running: one session after the other, whatever the weather."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

import psycopg

from milepost import db
from milepost.checkpoints import Answer
from milepost.errors import (
    CompetingInstance,
    HandlerFailed,
    MilepostError,
    ParkingFull,
    TransactionEnded,
)
from milepost.owner import owner_name
from milepost.processors.conflict import Conflict
from milepost.processors.failure import Stopping
from milepost.processors.report import Reporter, State
from milepost.processors.segmented.modes import refuse_unfit
from milepost.processors.segmented.session import SegmentedSession
from milepost.processors.session import Session, Until
from milepost.processors.standby import Standby
from milepost.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from milepost.checkpoints import Checkpoint
    from milepost.db import Connection
    from milepost.processors.definition import Definition

RECONNECT = Retry(first_seconds=0.1, longest_seconds=10.0)
log = logging.getLogger("milepost.processors")


class AnySession(Protocol):
    """A stretch of a processor's life, however its work is done."""

    @property
    def conn(self) -> Connection: ...
    def open(self) -> None: ...
    def run(self, until: Until) -> None: ...
    def is_lost(self) -> bool: ...
    def checkpoint(self) -> Checkpoint | None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


MakeSession: TypeAlias = "Callable[[Definition, str, str, Reporter, Event], AnySession]"


class ServerLost(Exception):
    """A connection is gone. What was in hand is undone or, if the answer to its commit was
    lost, done; the stored checkpoint tells which."""


@dataclass(slots=True)
class Runner:
    """One instance of a processor."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    stop: Event = field(default_factory=Event)
    owner: str = field(default_factory=owner_name)
    make_session: MakeSession | None = None  # None: as its segments say, in this process
    _conflicts: int = field(default=0, init=False)
    _losses: int = field(default=0, init=False)
    _was_connected: bool = field(default=False, init=False)
    _reporter: Reporter = field(init=False)

    def __post_init__(self) -> None:
        refuse_unfit(self.definition)
        self._reporter = Reporter(self.definition.options, self.owner, self.schema)

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is asked for, or caught up; raises what ends the processor for good."""
        while not self.stop.is_set():
            if self._session(until):
                return

    def _session(self, until: Until) -> bool:
        """Whether the run is over."""
        try:
            with self._open() as session:
                self._was_connected = True
                return self._run(session, until)
        except Conflict as conflict:
            self._stand_by(conflict, until)
        except ServerLost as lost:
            self._wait_for_server(lost)
        return False

    def _open(self) -> AnySession:
        """A session. The very first one fails at once if the server cannot be reached; later
        ones wait for it."""
        here = Session if self.definition.segments is None else SegmentedSession
        make = self.make_session or here
        session = make(self.definition, self.url, self.schema, self._reporter, self.stop)
        try:
            with db.acting(self.url, "process"):
                session.open()
        except psycopg.OperationalError as error:
            if not self._was_connected:
                raise
            raise ServerLost(str(error)) from error
        return session

    def _run(self, session: AnySession, until: Until) -> bool:
        batches = self._reporter.batches
        try:
            with db.acting(self.url, "process"):
                session.run(until)
        except Stopping:
            pass
        except Conflict as conflict:
            if self.definition.options.on_conflict == "stop" and is_competitor(conflict.answer):
                self._refuse_competitor(session, conflict)
            raise
        except Exception as error:
            # Asked now: once the session is closed, all its connections are.
            if session.is_lost():
                raise ServerLost(str(error)) from error
            if isinstance(error, HandlerFailed | ParkingFull | TransactionEnded):
                self._reporter.claim()
            self._last_report(session, "failed", f"{type(error).__name__}: {error}")
            raise
        finally:
            if self._reporter.batches > batches:
                self._conflicts = self._losses = 0
        self._last_report(session, "stopped")
        return True

    def _last_report(self, session: AnySession, state: State, error: str | None = None) -> None:
        """What ends the run must not be hidden by a report that fails."""
        try:
            self._reporter.change(session.conn, state, error)
        except (psycopg.Error, MilepostError) as failed:
            log.warning(
                "processor=%s state=%s not reported: %s",
                self.definition.options.name, state, failed,
            )  # fmt: skip

    def _refuse_competitor(self, session: AnySession, conflict: Conflict) -> None:
        """Unless it is this instance itself: a commit that outlived its connection."""
        current = session.checkpoint()
        other = current.owner if current else None
        if other != self.owner:
            answer = conflict.answer.name.lower()
            name = self.definition.options.name
            raise CompetingInstance(name, self.owner, other, answer) from conflict

    def _stand_by(self, conflict: Conflict, until: Until) -> None:
        """Somebody else moved the checkpoint. If it was reset, go on from there at once."""
        if not is_competitor(conflict.answer):
            return
        self._conflicts += 1
        # Without a connection: the row in `processors` is the active instance's.
        self._reporter.change(None, "standby")
        standby = Standby(self.definition.options, self.url, self.schema, self.stop)
        if until == "stopped":
            standby.wait(self._conflicts)
        else:
            standby.rest(self._conflicts)  # the next session sees whether the other has caught up

    def _wait_for_server(self, lost: ServerLost) -> None:
        self._losses += 1
        self._reporter.change(None, "reconnecting", str(lost))
        self.stop.wait(RECONNECT.delay_seconds(self._losses, random.random()))  # noqa: S311


def is_competitor(answer: Answer) -> bool:
    """Whether an answer means that another instance works under the same name."""
    return answer in (Answer.FURTHER, Answer.IGNORED)
