"""What operators want of the processors of this process, and signs of life of those that are idle.

The watcher asks and reports for all of them together, so that an idle processor needs no statement
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from milepost import db
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.status import ProcessorStatus
    from milepost.runtime import Runtime, Watch


@dataclass(frozen=True, slots=True)
class Orders:
    """What the operators want, as of one moment."""

    is_paused: bool
    has_retries: bool
    checkpoint: Position | None  # of a processor without segments


@dataclass(slots=True, eq=False)
class Overseen:
    """One instance of a processor."""

    status: ProcessorStatus
    watch: Watch | None
    beats: bool  # its signs of life are the watcher's: it has no claims that a keeper extends
    orders: Orders = Orders(is_paused=False, has_retries=False, checkpoint=None)
    asked: int = 0  # how often: with every answer there is something new to look at
    asked_at: float | None = None
    is_idle: bool = False
    _seen: int = 0
    _retried: int = 0

    def has_news(self) -> bool:
        """Whether there was an answer since the last call."""
        before, self._seen = self._seen, self.asked
        return self.asked != before

    def take_retries(self) -> bool:
        """Whether retries are requested that nobody has taken since the last answer."""
        is_new = self.orders.has_retries and self._retried != self.asked
        self._retried = self.asked
        return is_new

    def told(self, orders: Orders) -> None:
        has_news = orders != self.orders or orders.has_retries
        self.orders = orders
        self.asked += 1
        self.asked_at = self.status.clock()
        if has_news and self.watch is not None:
            self.watch.wake()


class Oversight:
    """One for each process: `runtime.part(Oversight)`."""

    def __init__(self, runtime: Runtime) -> None:
        timing = runtime.timing
        self._schema, self._seconds = runtime.schema, timing.orders_seconds
        self._lock = Lock()
        self._overseen: list[Overseen] = []
        runtime.add_chore(timing.orders_seconds, lambda conn: self.ask(conn, self._all()))
        runtime.add_chore(2 * timing.report_seconds, self._report_idle)
        self._beat_seconds = timing.report_seconds
        runtime.add_chore(self._beat_seconds, self._beat)

    @contextmanager
    def of(
        self, status: ProcessorStatus, watch: Watch | None, *, beats: bool
    ) -> Iterator[Overseen]:
        overseen = Overseen(status, watch, beats)
        with self._lock:
            self._overseen.append(overseen)
        try:
            yield overseen
        finally:
            with self._lock:
                self._overseen.remove(overseen)

    def is_late(self, overseen: Overseen) -> bool:
        """The first time, and where no watcher asks."""
        asked_at, limit = overseen.asked_at, self._seconds * (1 if overseen.watch is None else 2)
        return asked_at is None or overseen.status.clock() - asked_at >= limit

    def ask(self, conn: Connection, overseen: list[Overseen]) -> None:
        if not overseen:
            return
        names = [each.status.name for each in overseen]
        versions = [each.status.version for each in overseen]
        rows = db.fetch_all(
            conn, self._schema, "processor_orders", processors=names, versions=versions
        )
        for each, (is_paused, has_retries, *at) in zip(overseen, rows, strict=True):
            checkpoint = None if at[1] is None else Position(*at)
            each.told(Orders(is_paused, has_retries, checkpoint))

    def _beat(self, conn: Connection) -> None:
        """Also while a handler is slow. Who misses three is silent: others take over from a process
        that is frozen."""
        alive = [each.status for each in self._all() if each.beats]
        if not alive:
            return
        least = 3 * self._beat_seconds
        db.run(
            conn,
            self._schema,
            "processor_beat",
            processors=[status.name for status in alive],
            versions=[status.version for status in alive],
            owners=[status.owner for status in alive],
            alive_seconds=[max(least, status.options.claim_seconds) for status in alive],
        )

    def _report_idle(self, conn: Connection) -> None:
        """An idle standby that may write the row is not one any more: the active one has been
        silent for a while."""
        idle = [each.status for each in self._all() if each.is_idle and each.status.is_silent()]
        if not idle:
            return
        done = [status.take_handled() for status in idle]
        try:
            rows = db.fetch_all(
                conn,
                self._schema,
                "processor_idle",
                processors=[status.name for status in idle],
                versions=[status.version for status in idle],
                owners=[status.owner for status in idle],
                handled=[handled for handled, _ in done],
                rates=[rate for _, rate in done],
            )
        except BaseException:
            for status, (handled, _) in zip(idle, done, strict=True):
                status.give_back(handled)
            raise
        written = {tuple(row) for row in rows}
        for status, (handled, _) in zip(idle, done, strict=True):
            is_written = (status.name, status.version, status.owner) in written
            status.reported(handled, is_written=is_written)

    def _all(self) -> list[Overseen]:
        with self._lock:
            return list(self._overseen)
