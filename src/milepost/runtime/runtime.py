"""What the members of one process share: the database, the budget of connections, the watcher."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import db
from milepost.runtime.connections import DEFAULT_MAX_CONNECTIONS, Connections
from milepost.runtime.lost_server import Backoff, is_server_away, is_server_starting
from milepost.runtime.status import Repeats
from milepost.runtime.watcher import Chore, OnCancel, Watch, Watcher

if TYPE_CHECKING:
    from milepost.db import Connection, UrlSource
    from milepost.runtime.group import Member

WATCHER = 1
log = logging.getLogger("milepost.runtime")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timing:
    """How often things are looked at. Tests pass shorter times."""

    orders_seconds: float = 2.0  # between two looks for what operators want
    report_seconds: float = 5.0  # between two reports of an instance or a worker
    advance_seconds: float = 5.0  # between two stores of a checkpoint that only passes the filter
    beat_seconds: float = 1.0  # between two extensions of claims, if claims are not shorter
    retry_seconds: float = 1.0  # that retries may keep new messages waiting
    held_seconds: float = 0.2  # for longer than that no job taken ahead waits for a handler
    policy_seconds: float = 5.0  # between two looks whether there is a retention policy now
    archive_seconds: float = 10.0  # between two looks for what to archive
    removal_seconds: float = 60.0  # between two removals of what the policy does not keep


@dataclass(slots=True, eq=False)
class Runtime:
    source: UrlSource = field(repr=False)
    schema: str
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    timing: Timing = field(default_factory=Timing)
    connections: Connections = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False)
    _watcher: Watcher | None = field(default=None, init=False)
    _chores: list[Chore] = field(default_factory=list, init=False)
    _parts: dict[Any, Any] = field(default_factory=dict, init=False)
    _own: int = field(default=WATCHER, init=False)  # what the process needs besides its members

    def __post_init__(self) -> None:
        self.rebind(self.source)

    def rebind(self, source: db.UrlSource) -> None:
        """Use this database from now on, while nothing runs: nothing of another one is left."""
        self.source = source
        self.connections = Connections(source, self.max_connections, self.schema)
        self._parts.clear()

    @property
    def url(self) -> str:
        return db.url_of(self.source)

    def check(
        self,
        members: Sequence[Member],
        stop: Event,
        look: Callable[[Connection], None] = lambda _conn: None,
        *,
        is_patient: bool = False,
    ) -> None:
        """Waits for a server that is starting; if it is patient, also for one that cannot be
        reached, as during a failover. Raises what would keep all members from running. `look`
        uses the same connection."""
        self.reserve(members)
        activity = members[0].activity if members else None
        backoff, repeats = Backoff(), Repeats()
        while not stop.is_set():
            try:
                with db.connect(self.url) as conn, db.acting(conn, activity):
                    db.check_schema(conn, self.schema)
                    look(conn)
                    return
            except Exception as error:
                if not is_server_starting(error):
                    if not (is_patient and is_server_away(error)):
                        raise
                    text = " ".join(str(error).split())
                    if (more := repeats.note(text)) is not None:
                        log.warning("the server cannot be reached, tries again: %s%s", text, more)
                stop.wait(backoff.next_seconds())

    def reserve(self, members: Sequence[Member]) -> None:
        self.connections.reserve(self._own + max((m.own_connections for m in members), default=0))

    @contextmanager
    def expecting(self, own: int) -> Iterator[None]:
        """So many more connections of the process's own are needed meanwhile."""
        self._own += own
        try:
            yield
        finally:
            self._own -= own

    @contextmanager
    def watching(
        self,
        poll_seconds: float,
        on_job: Callable[[], None] | None = None,
        on_cancel: OnCancel | None = None,
        *,
        listens: bool = True,
    ) -> Iterator[Watch]:
        """Starts the watcher, if nobody else watches."""
        with self._lock:
            if self._watcher is None or self._watcher.is_over():
                self._watcher = self._restarted(listens=listens)
            watch = Watch(poll_seconds, on_job, on_cancel, listens, self._watcher)
            self._watcher.add(watch)
        try:
            yield watch
        finally:
            self._end(watch)

    def part(self, kind: type[T]) -> T:
        """The one instance of something that all members of the process share."""
        with self._lock:
            if kind not in self._parts:
                self._parts[kind] = kind(self)  # type: ignore[call-arg]
            found: T = self._parts[kind]
            return found

    def add_chore(self, seconds: float, run: Callable[[Connection], None]) -> None:
        self._chores.append(Chore(seconds, run))

    def _restarted(self, *, listens: bool) -> Watcher:
        if self._watcher is not None:
            self._watcher.close()
            self.connections.drop_resting()
            self._watcher = None
        watcher = Watcher(self.connections, self.schema, self._chores)
        watcher.start(listens=listens)
        return watcher

    def _end(self, watch: Watch) -> None:
        with self._lock:
            is_last = watch.watcher.remove(watch)
            if is_last and watch.watcher is self._watcher:
                self._watcher.close()
                self._watcher = None
