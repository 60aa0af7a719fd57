"""Session after session: reconnect, wait, report, and give up loudly.

The supervisor knows nothing of messages or jobs. It is the only place that decides whether work
goes on after an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.errors import MilepostError, describe
from milepost.runtime.lost_server import Backoff, ServerLost, is_server_lost, is_server_starting
from milepost.runtime.pulse import of_this_run
from milepost.runtime.session import Session, SessionOver, Stopping, refuse_unknown_end

if TYPE_CHECKING:
    from milepost.runtime.session import Until
    from milepost.runtime.status import State, Status
    from milepost.sql import Activity

log = logging.getLogger("milepost.runtime")
LONGEST_ERROR = 2_000  # Spark's contain whole stacks of the JVM


@dataclass(slots=True)
class Supervisor:
    """Runs the sessions of one instance of a processor or pipeline."""

    make_session: Callable[[], Session]
    status: Status
    url: str = field(repr=False)
    activity: Activity
    stop: Event
    was_connected: bool = field(default=False, init=False)
    _backoff: Backoff = field(default_factory=Backoff, init=False)

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is requested or `until` holds. Raises what ends the work for good."""
        refuse_unknown_end(until)
        with of_this_run().showing(self.status):
            self._run(until)

    def _run(self, until: Until) -> None:
        while not self.stop.is_set():
            try:
                self._run_session(until)
            except SessionOver as over:
                log.info("%s session over: %s", self.status, over)
                over.wait(until)
            except ServerLost as lost:
                self.status.change(None, lost.state, str(lost))
                self.stop.wait(self._backoff.next_seconds())
            else:
                return

    @property
    def losses(self) -> int:
        """How often the server was lost in a row."""
        return self._backoff.failures

    def _run_session(self, until: Until) -> None:
        session = self.make_session()
        self._open(session)
        with session:
            self.was_connected = True
            progress = self.status.progress
            try:
                with db.acting(self.url, self.activity):
                    session.run(until)
            except Stopping:
                pass
            except Exception as error:
                meaning = self._explained(session, error)
                if meaning is error:
                    raise
                raise meaning from error
            finally:
                if self.status.progress > progress:
                    self._backoff.reset()
            self._report_end(session, "stopped")

    def _open(self, session: Session) -> None:
        try:
            with db.acting(self.url, self.activity):
                session.open()
        except Exception as error:
            if is_server_starting(error) or (self.was_connected and is_server_lost(error)):
                raise ServerLost(str(error)) from error
            raise

    def _explained(self, session: Session, error: Exception) -> Exception:
        meaning = session.meaning_of(error)
        if isinstance(meaning, ServerLost):
            return type(meaning)(str(meaning)[:LONGEST_ERROR])
        if not isinstance(meaning, SessionOver):
            self._report_end(session, "failed", describe(meaning))
        return meaning

    def _report_end(self, session: Session, state: State, error: str | None = None) -> None:
        """A report that fails must not hide what ended the run."""
        try:
            session.report_end(state, error and error[:LONGEST_ERROR])
        except (psycopg.Error, MilepostError) as failed:
            log.warning("%s state=%s could not be reported: %s", self.status, state, failed)
