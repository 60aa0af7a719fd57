"""The connections of one process: borrowed from a budget, its own needs first.

All work with the database uses a lease. While the lease is used it has a connection. While it
rests it keeps its connection, until the budget is used up and another lease needs one: then that
one takes it over. So a few busy members keep their connections and what is prepared on them, and
hundreds of idle ones need hardly any. What only we have used is clean: sessions are reset that a
handler had.

No thread may use one lease inside the use of another: all could wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Condition, Event, RLock
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import psycopg

from milepost import db, sql
from milepost.errors import BudgetTooSmall
from milepost.runtime.lost_server import Backoff, is_transient
from milepost.runtime.pulse import turned
from milepost.runtime.session import Stopping
from milepost.sql import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection, UrlSource
    from milepost.runtime.event_loop import EventLoop

DEFAULT_MAX_CONNECTIONS = 20
LEAST_OWN = 2  # the watcher's, and one for the duties of all members
LOOK_SECONDS = 0.2  # how soon a stop is noticed while a connection is waited for
ASYNC_LOOK_SECONDS = 0.005  # an event loop is not notified
log = logging.getLogger("milepost.runtime")
C = TypeVar("C", bound="Connection | AsyncConnection")
T = TypeVar("T")
OnNotice: TypeAlias = "Callable[[psycopg.errors.Diagnostic], None]"


@dataclass(slots=True, eq=False)
class Connections:
    """At most `most`. Of these, `own` are reserved for what the process itself needs: its watcher,
    and the duties that keep claims and locks."""

    source: UrlSource = field(repr=False)
    most: int = DEFAULT_MAX_CONNECTIONS
    schema: str = DEFAULT_SCHEMA
    own: int = field(init=False)
    _changed: Condition = field(default_factory=Condition, init=False)
    _open: int = field(default=0, init=False)
    _open_own: int = field(default=0, init=False)
    # Those that rest longest come first.
    _resting: dict[AnyLease[Any], None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.own = min(LEAST_OWN, self.most - 1)

    @property
    def url(self) -> str:
        return db.url_of(self.source)

    def reserve(self, own: int) -> None:
        """Refuses a budget that leaves nothing for batches and jobs."""
        if own >= self.most:
            raise BudgetTooSmall(self.most, own + 1)
        self.own = max(self.own, own)

    def lease(
        self,
        name: str,
        stop: Event,
        *,
        is_own: bool = False,
        is_pooled: bool = False,
        on_notice: OnNotice | None = None,
    ) -> Lease:
        return Lease(self, f"milepost {name}"[:63], stop, is_own, is_pooled, on_notice)

    def async_lease(
        self, name: str, stop: Event, loop: EventLoop | None = None, *, is_pooled: bool = False
    ) -> AsyncLease:
        return AsyncLease(self, f"milepost {name}"[:63], stop, False, is_pooled, loop)

    def drop_resting(self) -> None:
        """After the server was lost, what rests is dead."""
        with self._changed:
            for lease in list(self._resting):
                lease.close_connection(self._take_from(lease))
            self._changed.notify_all()

    def acquire(self, lease: AnyLease[C]) -> None:
        """Gives the lease a connection, as soon as there is one for it."""
        victim, left = self._granted(lease)
        if lease.conn is None:
            with self._opening(lease):
                lease.conn = lease.make(victim, left)

    @contextmanager
    def counting(self, name: str, stop: Event) -> Iterator[None]:
        """Counts a connection of another driver, as one of the process's own."""
        lease = self.lease(name, stop, is_own=True)
        victim, left = self._granted(lease)
        if victim is not None:
            victim.close_connection(left)
        try:
            yield
        finally:
            self.give_back(lease)

    async def acquire_async(self, lease: AsyncLease) -> None:
        """The same on the event loop of the lease, which must not be blocked."""
        while True:
            with self._changed:
                if self._may_have(lease):
                    victim, left = self._grant(lease)
                    break
            if lease.stop.is_set():
                raise Stopping
            await asyncio.sleep(ASYNC_LOOK_SECONDS)
        if lease.conn is None:
            with self._opening(lease):
                lease.conn = await lease.make_async(victim, left)

    def rest(self, lease: AnyLease[Any]) -> None:
        with self._changed:
            self._resting[lease] = None
            self._changed.notify_all()

    def give_back(self, lease: AnyLease[Any]) -> None:
        """It has no connection any more."""
        with self._changed:
            self._resting.pop(lease, None)
            lease.conn = None
            self._count(lease, -1)
            self._changed.notify_all()

    def close(self, lease: AnyLease[Any]) -> None:
        with self._changed:  # so that nobody takes the connection over meanwhile
            if lease.conn is not None:
                lease.close_connection(lease.conn)
                self.give_back(lease)

    def _granted(self, lease: AnyLease[C]) -> tuple[AnyLease[Any] | None, Any]:
        with self._changed:
            while not self._may_have(lease):
                if lease.stop.is_set():
                    raise Stopping
                self._changed.wait(LOOK_SECONDS)
            return self._grant(lease)

    def _grant(self, lease: AnyLease[C]) -> tuple[AnyLease[Any] | None, Any]:
        """Its own connection, if that rests. Else it may open one, or take one over."""
        if lease in self._resting:
            del self._resting[lease]
            return None, None
        victim = next(self._victims(lease)) if self._is_full(lease) else None
        left = None if victim is None else self._take_from(victim)
        self._count(lease, 1)
        return victim, left

    @contextmanager
    def _opening(self, lease: AnyLease[Any]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.give_back(lease)
            raise

    def _may_have(self, lease: AnyLease[Any]) -> bool:
        is_its_own = lease in self._resting
        return is_its_own or not self._is_full(lease) or any(True for _ in self._victims(lease))

    def _is_full(self, lease: AnyLease[Any]) -> bool:
        others = self._open - self._open_own
        return self._open >= self.most or (not lease.is_own and others >= self.most - self.own)

    def _victims(self, lease: AnyLease[Any]) -> Iterator[AnyLease[Any]]:
        """Own needs come first. Of theirs, what is open beyond the reserve is for all."""
        is_beyond = self._open_own > self.own
        return (o for o in self._resting if lease.is_own or not o.is_own or is_beyond)

    def _take_from(self, lease: AnyLease[C]) -> C | None:
        del self._resting[lease]
        conn, lease.conn = lease.conn, None
        self._count(lease, -1)
        return conn

    def _count(self, lease: AnyLease[Any], change: int) -> None:
        self._open += change
        self._open_own += change * lease.is_own


@dataclass(slots=True, eq=False)
class AnyLease(ABC, Generic[C]):
    """`with lease as conn`: the use of a connection. Threads may share a lease, and one may enter
    it again inside its own use. The first to enter waits for the budget."""

    connections: Connections
    name: str
    stop: Event
    is_own: bool
    is_pooled: bool
    conn: C | None = field(default=None, init=False)
    _users: int = field(default=0, init=False)
    _lock: RLock = field(default_factory=RLock, init=False)
    _was_lost: bool = field(default=False, init=False)
    _has_keep_alives: bool = field(default=True, init=False)
    _had_handler: bool = field(default=False, init=False)  # its connection, at any time
    _abandoned: C | None = field(default=None, init=False)

    def __enter__(self) -> C:
        with self._lock:
            if self._users == 0:
                self.connections.acquire(self)
            self._users += 1
            assert self.conn is not None  # noqa: S101 - given by `acquire`
            return self.conn

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._abandoned is not None:
                self.close_connection(self._abandoned)
            elif self._is_closed():
                self._was_lost = True
                self.connections.give_back(self)
            else:
                self.connections.rest(self)

    def is_lost(self) -> bool:
        """Whether a connection of this lease was lost."""
        return self._was_lost or (self.conn is not None and self._is_closed())

    def close(self) -> None:
        with self._lock:
            self.connections.close(self)

    def _pause_after(self, error: Exception, backoff: Backoff) -> float:
        """How long to wait before what failed is tried again; raises what must not be."""
        if not is_transient(error):
            raise error
        seconds = backoff.next_seconds()
        turned(seconds)
        log.warning("%s try=%s lost the server: %s", self.name, backoff.failures, error)
        return seconds

    def reset_for(self, conn: C) -> db.SessionReset:
        """What leaves nothing of what a handler has set; in its transaction, before that commits.
        Inside another use of the lease, locks of ours may be held."""
        self._had_handler = True
        name = None if db.is_pooled(conn) else self.name
        return db.SessionReset(name, self._has_keep_alives, keeps_locks=self._users > 1)

    def reset_script(self, conn: C) -> bytes:
        return self.reset_for(conn).script(self.connections.schema)

    @abstractmethod
    def make(self, victim: AnyLease[Any] | None, left: Any) -> C:
        """A connection: a new one, or what a victim has left."""

    @abstractmethod
    def close_connection(self, conn: C | None) -> None: ...

    def _is_closed(self) -> bool:
        return self.conn is None or self.conn.closed


@dataclass(slots=True, eq=False)
class Lease(AnyLease["Connection"]):
    on_notice: OnNotice | None = None

    def run(self, work: Callable[[Connection], T], on_loss: Callable[[], None] = lambda: None) -> T:
        """Run it again after each loss, until a stop is requested. It must be harmless twice."""
        backoff = Backoff()
        while True:
            try:
                with self as conn:
                    return work(conn)
            except Exception as error:  # noqa: BLE001 - raised again, unless it passes
                seconds = self._pause_after(error, backoff)
            on_loss()
            if self.stop.wait(seconds):
                raise Stopping

    def reset_session(self, conn: Connection) -> str | None:
        """The id of the transaction in which it was reset, if it has one."""
        cursor = db.plain(conn).execute(self.reset_script(conn))
        while cursor.nextset():
            pass
        return str(db.one(cursor.fetchone())[1])

    def reset_after_failure(self, conn: Connection) -> None:
        """The rollback has undone the settings, but not the locks. Through a pooler, the next
        statement may run in another session: there a handler must not take such locks. If the
        connection is lost now, the next use finds that."""
        if not db.is_pooled(conn) and not conn.closed:
            with suppress(psycopg.OperationalError):
                self.reset_session(conn)

    def abandon(self) -> None:
        """Break its connection, which a thread uses that cannot be ended. Its place in the budget
        is free; the thread closes what is left of the connection when it leaves the lease."""
        with self._lock:
            if self.conn is not None:
                self._abandoned = self.conn
                db.break_connection(self.conn)
                self.connections.give_back(self)

    def make(self, victim: AnyLease[Any] | None, left: Any) -> Connection:
        if isinstance(victim, Lease) and victim.is_pooled == self.is_pooled and left is not None:
            if victim.on_notice is not None:
                left.remove_notice_handler(victim.on_notice)
            try:
                self._has_keep_alives = victim._has_keep_alives
                return self._prepared(self._taken_over(left, victim))
            except psycopg.OperationalError:
                left.close()
        elif victim is not None:
            victim.close_connection(left)
        return self._prepared(self._opened())

    def close_connection(self, conn: Connection | None) -> None:
        if conn is not None:
            conn.close()

    def _opened(self) -> Connection:
        connect = db.connect_pooled if self.is_pooled else db.connect
        conn = connect(self.connections.url, application_name=self.name)
        self._has_keep_alives = db.detect_dead_peers(conn)
        self._had_handler = False
        return conn

    def _prepared(self, conn: Connection) -> Connection:
        if self.on_notice is not None:
            conn.add_notice_handler(self.on_notice)
        return conn

    def _taken_over(self, conn: Connection, victim: Lease) -> Connection:
        if not db.is_pooled(conn):
            if victim._had_handler:
                self.reset_session(conn)
                db.forget_prepared(conn)
            elif victim.name != self.name:
                conn.execute(sql.query("session_name"), {"name": self.name})
        self._had_handler = False
        return conn


@dataclass(slots=True, eq=False)
class AsyncLease(AnyLease["AsyncConnection"]):
    """Its connection belongs to one event loop, so it is never taken over by another. Threads use
    it as any lease, and need the `loop`. Coroutines of the loop use `async with`."""

    loop: EventLoop | None

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        backoff = Backoff()
        while True:
            try:
                async with self as conn:
                    return await work(conn)
            except Exception as error:  # noqa: BLE001 - raised again, unless it passes
                seconds = self._pause_after(error, backoff)
            if await asyncio.to_thread(self.stop.wait, seconds):
                raise Stopping

    async def reset_session(self, conn: AsyncConnection) -> str | None:
        cursor = await db.plain_async(conn).execute(self.reset_script(conn))
        while cursor.nextset():
            pass
        return str(db.one(await cursor.fetchone())[1])

    async def reset_after_failure(self, conn: AsyncConnection) -> None:
        if not db.is_pooled(conn) and not conn.closed:
            with suppress(psycopg.OperationalError):
                await self.reset_session(conn)

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self.loop is not None  # noqa: S101 - only threads are here
        return self.loop.run(work)

    async def __aenter__(self) -> AsyncConnection:
        if self._users == 0:
            await self.connections.acquire_async(self)
        self._users += 1
        assert self.conn is not None  # noqa: S101 - given by `acquire_async`
        return self.conn

    async def __aexit__(self, *_error: object) -> None:
        self.__exit__()

    def make(self, victim: AnyLease[Any] | None, left: Any) -> AsyncConnection:
        return self.on_loop(self.make_async(victim, left))

    async def make_async(self, victim: AnyLease[Any] | None, left: Any) -> AsyncConnection:
        if victim is not None:
            victim.close_connection(left)
        return await self._opened()

    def close_connection(self, conn: AsyncConnection | None) -> None:
        """What `conn.close()` does, from any thread: it rests, so that the event loop does not use
        it."""
        if conn is not None:
            conn.pgconn.finish()

    async def _opened(self) -> AsyncConnection:
        connect = db.connect_pooled_async if self.is_pooled else db.connect_async
        conn = await connect(self.connections.url, application_name=self.name)
        self._has_keep_alives = await db.detect_dead_peers_async(conn)
        return conn
