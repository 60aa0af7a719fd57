"""One thread for each process listens, asks for the horizon, and wakes those with something to do.

It also runs chores: statements that one connection can run for all members together. Its wake-ups
are hints. A member that needs to know asks by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, TypeAlias

from milepost import db, sql
from milepost.log import Horizon, Pace, horizon
from milepost.runtime.bell import Bell
from milepost.runtime.duty import Duty
from milepost.runtime.lost_server import ServerLost

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime.connections import Connections

LONGEST_WAIT_SECONDS = 1.0
# Between two looks for the horizon that notifications ask for, after one that found it moved, and
# after one that did not: anybody who may connect can notify, as often as he likes.
LOOK_AGAIN_SECONDS = 0.002
LOOK_IN_VAIN_SECONDS = 0.01
CANCEL = "cancel "  # what a notification of cancel.sql begins with
OnCancel: TypeAlias = "Callable[[Sequence[int]], None]"


@dataclass(slots=True, eq=False)
class Watch:
    """What one member is told. The watcher's thread calls `on_job` when jobs were put, and
    `on_cancel` when running ones were cancelled, with their ids; with none if they are many. One
    that does not listen only wants the chores to be run."""

    poll_seconds: float
    on_job: Callable[[], None] | None
    on_cancel: OnCancel | None
    listens: bool
    watcher: Watcher
    _woken: Event = field(default_factory=Event, init=False)

    @property
    def horizon(self) -> Horizon:
        """As of the last time that the watcher asked."""
        return self.watcher.horizon

    def wake(self) -> None:
        self._woken.set()

    def cancelled(self, ids: Sequence[int]) -> None:
        if self.on_cancel is not None:
            self.on_cancel(ids)

    def clear(self) -> None:
        """Before a look: what comes after it wakes."""
        self._woken.clear()

    def wait(self, seconds: float) -> bool:
        """Until it is woken. Raises if the watcher has failed."""
        is_woken = self._woken.wait(seconds)
        self.watcher.check()
        return is_woken


@dataclass(slots=True, eq=False)
class Chore:
    """Run about every so many seconds while anybody watches."""

    seconds: float
    run: Callable[[Connection], None]
    due_at: float = 0.0


@dataclass(slots=True, eq=False)
class Watcher:
    """Lives from `start` until nobody watches any more, or until it fails. Then all that watch are
    woken, and raise what it failed with.

    It listens only if one of them does: where anybody listens, each append costs more."""

    connections: Connections
    schema: str
    chores: list[Chore]
    horizon: Horizon = field(init=False)
    _watches: set[Watch] = field(default_factory=set, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _held: ExitStack = field(init=False)
    _conn: Connection = field(init=False)
    _duty: Duty = field(init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _bell: Bell = field(default_factory=Bell, init=False)
    _pace: Pace = field(default_factory=Pace, init=False)
    _look_at: float = field(default=0.0, init=False)
    _next_look: float = field(default=0.0, init=False)  # not sooner, whatever is notified
    _is_listening: bool = field(default=False, init=False)

    def start(self, *, listens: bool = True) -> None:
        """Connects in the caller's thread, which is told what keeps it from doing so."""
        self._duty = Duty("milepost-watcher", self._step, self._fail)
        lease = self.connections.lease("watcher", self._duty.closing, is_own=True)
        with ExitStack() as stack:
            stack.callback(self._bell.close)
            stack.callback(lease.close)
            self._conn = stack.enter_context(lease)
            db.check_schema(self._conn, self.schema)
            if listens:
                self._begin_listening()
            self.horizon = horizon(self._conn, self.schema)
            self._held = stack.pop_all()
        self._duty.start()

    def add(self, watch: Watch) -> None:
        with self._lock:
            self._watches.add(watch)
            self._look_at = 0.0
        self._bell.ring()

    def remove(self, watch: Watch) -> bool:
        """Whether nobody is left."""
        with self._lock:
            self._watches.discard(watch)
            return not self._watches

    def is_over(self) -> bool:
        return self._failure is not None

    def check(self) -> None:
        if self._failure is not None:
            raise ServerLost(str(self._failure)) from self._failure

    def close(self) -> None:
        self._duty.closing.set()
        self._bell.ring()
        self._duty.close()
        self._held.close()

    def _begin_listening(self) -> None:
        if not db.is_pooled(self._conn):  # behind a pooler another client would be notified
            self._conn.add_notify_handler(lambda n: self._notified(n.channel, n.payload))
            self._conn.execute(sql.query("listen", self.schema))
            self._conn.execute(sql.query("queue_listen", self.schema))
        self._is_listening = True

    def _step(self) -> float | None:
        if self._duty.closing.is_set():
            return None
        self._run_chores()
        if not self._is_listening:
            self._listen_if_wanted()
        elif time.monotonic() >= self._look_at:
            self._look()
        self._listen()
        return 0.0

    def _listen_if_wanted(self) -> None:
        """Then all are woken, by the next look too: what was notified before is unknown."""
        with self._lock:
            watches = list(self._watches)
        if any(watch.listens for watch in watches):
            self._begin_listening()
            _wake(watches)

    def _look(self) -> None:
        """Ask for the horizon, and wake all if it has moved."""
        before, found = self.horizon, horizon(self._conn, self.schema)
        has_moved = found.position > before.position
        seconds, self._pace = self._pace.after(
            is_full=False, is_fruitful=has_moved, is_held=found.is_held
        )
        self.horizon = found
        pause = LOOK_AGAIN_SECONDS if has_moved else LOOK_IN_VAIN_SECONDS
        self._next_look = time.monotonic() + pause
        with self._lock:
            watches = list(self._watches)
            poll = min((watch.poll_seconds for watch in watches), default=LONGEST_WAIT_SECONDS)
            self._look_at = time.monotonic() + min(seconds, poll)
        if has_moved:
            for watch in watches:
                watch.wake()

    def _listen(self) -> None:
        looks = [self._look_at] if self._is_listening else []
        due_at = min([*looks, *(chore.due_at for chore in self.chores)], default=math.inf)
        seconds = max(0.0, min(due_at - time.monotonic(), LONGEST_WAIT_SECONDS))
        self._bell.wait(seconds, self._conn)
        # Asked of libpq: conn.notifies() takes longer than waking somebody.
        self._conn.pgconn.consume_input()
        while (notice := self._conn.pgconn.notifies()) is not None:
            extra = notice.extra.decode(errors="replace")
            self._notified(notice.relname.decode(errors="replace"), extra)

    def _notified(self, channel: str, payload: str) -> None:
        if channel == self.schema:
            self._look_at = min(self._look_at, self._next_look)
            return
        is_cancel = payload.startswith(CANCEL)
        ids = _ids(payload.removeprefix(CANCEL)) if is_cancel else []
        if ids is None:
            return  # not ours
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            if is_cancel:
                watch.cancelled(ids)
            elif watch.on_job is not None:
                watch.on_job()

    def _run_chores(self) -> None:
        now = time.monotonic()
        for chore in self.chores:
            if chore.due_at <= now:
                chore.due_at = now + chore.seconds
                chore.run(self._conn)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failure = error
            watches = list(self._watches)
        _wake(watches)


def _ids(text: str) -> list[int] | None:
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        return None


def _wake(watches: Iterable[Watch]) -> None:
    for watch in watches:
        watch.wake()
        if watch.on_job is not None:
            watch.on_job()
