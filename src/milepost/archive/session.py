"""One session of the archiver: plan a file, write it, commit, wait.

Of all archivers the one that has the turn works. The turn is not a fence: each session begins with
a new epoch, and the commit of a file is stored only under the current one. What cannot be written
stays in the log, and is tried again after a growing pause.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.archive.plan import (
    FileSize,
    Plan,
    is_archived,
    next_file,
    request_archiving,
)
from milepost.checkpoints import Answer
from milepost.errors import (
    ArchiveNotInstalled,
    ArchiveUnwritable,
    InvalidArchive,
    RangeRemoved,
    describe,
)
from milepost.processors import Conflict, ProcessorSession, Turns
from milepost.retry import Retry
from milepost.runtime import Backoff, SessionOver

if TYPE_CHECKING:
    from milepost.archive.filing import Filing
    from milepost.log.history import ArchivedFile
    from milepost.records import Position
    from milepost.runtime import Until

# After errors of the place: it is full, or cannot be reached. A run that ends by itself gives up
# after so many in a row.
RETRY = Retry(limit=4, first_seconds=1.0, longest_seconds=60.0)


@dataclass(slots=True)
class Request:
    """The request of a run that ends by itself to the archiver that works."""

    up_to: Position | None = None


@dataclass(slots=True)
class ArchiverSession(ProcessorSession):
    size: FileSize = field(default_factory=FileSize, kw_only=True)
    request: Request = field(default_factory=Request, kw_only=True)
    retry: Retry = field(default=RETRY, kw_only=True)
    _has_turn: bool = field(default=False, init=False)
    _filing: Filing = field(init=False)
    _backoff: Backoff = field(init=False)

    def run(self, until: Until) -> None:
        """Archive until a stop is requested, or until nothing is left to archive now."""
        is_last = until != "stopped"
        if not self._has_turn:
            if is_last and self._is_done_by_another():
                return
            raise Conflict(Answer.FURTHER)
        self._begin()
        self.oversee(until, listens=False)  # it is in no hurry: appends need not wake it
        while not self.stop.is_set():
            if self.look_at_orders():
                self.runtime.part(Turns).check(self.options.key)
            if self.wait_while_paused():
                continue
            plan = self._next(is_last=is_last)
            if plan is not None:
                self._archive(plan, until)
                continue
            self._filing.close()
            self.report_idle()
            if is_last:
                return
            self.rest(self.runtime.timing.archive_seconds)

    def rest(self, seconds: float) -> None:
        """For that long, whatever is appended."""
        self.overseen.is_idle = True
        self.stop.wait(seconds)
        self.overseen.is_idle = False

    def meaning_of(self, error: Exception) -> Exception:
        """A new session begins after what was removed, or finds that the archive has a gap."""
        if isinstance(error, RangeRemoved):
            return SessionOver("messages were removed after the last file")
        return ProcessorSession.meaning_of(self, error)

    def _open(self) -> None:
        self._backoff = Backoff(self.retry)
        self.open_lease()
        turns, key, owner = self.runtime.part(Turns), self.options.key, self.status.owner
        self._has_turn = turns.take(key, owner)
        if self._has_turn:
            self._stack.callback(turns.release, key, owner)

    def _begin(self) -> None:
        """In `run`, so that what keeps it from working is reported."""
        self.status.claim()
        with self.lease as conn:
            begin = _filing().begin
            self._filing = begin(conn, self.runtime, self.status.owner, self.stop)
        self._stack.callback(self._filing.close)

    def _is_done_by_another(self) -> bool:
        """It waits for more messages, unless it is asked not to. What gets old enough meanwhile is
        not waited for: there would always be some."""
        with self.lease as conn:
            if self.request.up_to is None:
                self.request.up_to = request_archiving(conn, self.schema)
            up_to = self.request.up_to
            return up_to is None or is_archived(conn, self.schema, up_to)

    def _next(self, *, is_last: bool) -> Plan | None:
        with self.lease as conn:
            return next_file(conn, self.schema, self.size, is_last=is_last)

    def _archive(self, plan: Plan, until: Until) -> None:
        begun = time.monotonic()
        try:
            file = self._write(plan)
            with self.lease as conn:
                self._filing.commit(conn, file)
        except (ArchiveUnwritable, InvalidArchive) as error:
            self._wait_after(error, until)
            return
        with self.lease as conn:
            self._backoff.reset()
            self.status.batch(conn, file.messages, file.last)
        self.status.log.info(
            "%s file=%s messages=%s bytes=%s seconds=%.1f",
            self.status, file.name, file.messages, file.bytes, time.monotonic() - begun,
        )  # fmt: skip

    def _write(self, plan: Plan) -> ArchivedFile:
        # A long file must not look like a silent process: the watcher reports for those who rest.
        self.overseen.is_idle = True
        try:
            return self._filing.write(plan, self.size.file_bytes)
        except Exception as error:
            with self.lease as conn:
                self._filing.explain(conn, plan, error)
            raise
        finally:
            self.overseen.is_idle = False

    def _wait_after(self, error: Exception, until: Until) -> None:
        """The place is full, or cannot be reached. Nothing is lost: the messages stay."""
        seconds = self._backoff.next_seconds()
        if until != "stopped" and self._backoff.failures > self.retry.limit:
            raise error
        self.report_error(describe(error))
        while seconds > 0 and not self.stop.wait(min(seconds, self.status.report_seconds)):
            seconds -= self.status.report_seconds
            with self.lease as conn:
                self.status.write(conn)


def _filing() -> type[Filing]:
    try:
        from milepost.archive.filing import Filing
    except ImportError:
        raise ArchiveNotInstalled from None
    return Filing
