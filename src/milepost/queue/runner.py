"""Run a worker: take jobs into the hand before it is empty, and rest when there are none.

The parts, each with a connection of its own: this thread takes, a crew handles, one thread tells
how attempts ended, one sends heartbeats. Whatever fails in one of them ends the worker, loudly.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import db, sql
from milepost.db import one, translated
from milepost.queue.appetite import Appetite
from milepost.queue.bell import Bell
from milepost.queue.calls import (
    Place,
    PlainAsyncCall,
    PlainCall,
    TransactionalAsyncCall,
    TransactionalCall,
)
from milepost.queue.completions import Completions
from milepost.queue.crew import Crew, Parts, Tasks, Threads
from milepost.queue.hand import Hand
from milepost.queue.heartbeats import Heartbeats
from milepost.queue.link import Link, LinkEnded
from milepost.queue.outcome import Ending, Kind
from milepost.queue.pause import Look, Pause, look
from milepost.queue.rates import Rates
from milepost.queue.take import Taker

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.queue.definition import Definition, WorkerOptions
    from milepost.records import TakenJob

Until: TypeAlias = Literal["stopped", "caught_up", "drained"]  # the last two are the same here
STOP_SECONDS = 0.2  # the longest that a worker with nothing to do takes to notice a stop
# Nothing more waits: before it asks again, this thread lets go of the interpreter for long enough
# that the handler it has woken may begin.
HANDOVER_SECONDS = 0.00005
RATE_SECONDS = 0.005  # what was begun is measured over at least so long
log = logging.getLogger("milepost.queue")


@dataclass(slots=True)
class Runner:
    definition: Definition
    url: str = field(repr=False)
    schema: str
    stop: Event
    _hand: Hand = field(default_factory=Hand, init=False)
    _bell: Bell = field(init=False)
    _over: Event = field(default_factory=Event, init=False)
    _failure: BaseException | None = field(default=None, init=False)
    _appetite: Appetite = field(init=False)
    _taker: Taker = field(init=False)
    _link: Link = field(init=False)
    _completions: Completions = field(init=False)
    _heartbeats: Heartbeats = field(init=False)
    _crew: Crew = field(init=False)
    _asked_on: int = field(default=0, init=False)  # which connection last looked for jobs
    _is_notified: bool = field(default=False, init=False)  # since then
    _begun: tuple[int, float] = field(default=(0, 0.0), init=False)

    def __post_init__(self) -> None:
        options = self._options
        self._appetite = Appetite(options.concurrency, options.batch)
        self._taker = Taker(options.channel, options.lock, self.schema, is_durable=False)
        self._link = self._make_link(self.stop)
        self._link.on_open = self._listen

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is asked for or, if so wanted, nothing is left to do. The first connection
        fails at once if the server cannot be reached; later ones wait for it."""
        self._bell = Bell()
        try:
            db.check_schema(self._link.open(), self.schema)
        except BaseException:
            self._link.close()
            self._bell.close()
            raise
        self._start()
        try:
            self._take_all(until)
        except LinkEnded:
            log.info("worker=%s stops without the server", self._options.channel)
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure

    def _start(self) -> None:
        rates = Rates(self.schema)
        self._completions = Completions(
            self._make_link(self._over), self._hand, rates, self._bell.ring, self._fail
        )
        self._heartbeats = Heartbeats(
            self._make_link(self._over), self._hand, rates, self._options.lock, self._fail
        )
        self._heartbeats.link.on_loss = self._heartbeats.give_up_expired
        self._crew = self._make_crew()
        for part in (self._completions, self._heartbeats, self._crew):
            part.start()

    @property
    def _options(self) -> WorkerOptions:
        return self.definition.options

    def _take_all(self, until: Until) -> None:
        pause = Pause(self._options.poll_seconds)
        seen: Look | None = None
        while not self.stop.is_set() and self._failure is None:
            if not (count := self._wanted()):
                self._bell.wait(STOP_SECONDS)
                continue
            if jobs := self._take(count):
                self._hand.add(jobs)
                self._crew.wake(len(jobs))
                if len(jobs) < count:
                    time.sleep(HANDOVER_SECONDS)
                pause, seen = Pause(self._options.poll_seconds), None
            elif until != "stopped" and self._is_drained():
                return
            elif seen is None:
                # Before the last try to take: a put that nobody tells of is found by the one or
                # seen in flight by the other.
                seen = self._link.run(self._look)
            else:
                seconds, pause = pause.after(seen)
                seen = None
                self._link.run(lambda conn, wait=seconds: self._rest(conn, wait))  # type: ignore[misc]

    def _wanted(self) -> int:
        buffered = len(self._hand.waiting)
        self._measure(buffered)
        running = len(self._hand) - buffered - self._completions.pending
        idle = max(0, self._options.concurrency - running)
        self._hand.low = self._appetite.ahead() // 2
        return self._appetite.wanted(idle, buffered)

    def _measure(self, buffered: int) -> None:
        begun, now = self._hand.taken - buffered, time.monotonic()
        before, since = self._begun
        if now - since >= RATE_SECONDS:
            self._appetite.began(begun - before, now - since)
            self._begun = begun, now

    def _take(self, count: int) -> list[TakenJob]:
        # From before it is asked for: the server counts from later.
        deadline = time.monotonic() + self._options.lock
        self._asked_on = self._link.opened
        # Whoever is woken has a job to take: the duties come with the next take, which is soon.
        with_duties, self._is_notified = not self._is_notified, False
        jobs = self._link.run(lambda conn: self._taker.take(conn, count, with_duties=with_duties))
        for job in jobs:
            job.deadline = deadline
        return jobs

    def _look(self, conn: Connection) -> Look:
        return look(conn, self.schema)

    def _is_drained(self) -> bool:
        """Nothing in hand, asked first: what is told in between may come back."""
        if len(self._hand):
            return False
        parameters = {"pattern": self._options.channel}
        query = sql.query("queue_is_drained", self.schema)
        with translated(self.schema):
            return bool(one(self._link.run(lambda c: c.execute(query, parameters).fetchone()))[0])

    def _rest(self, conn: Connection, seconds: float) -> None:
        """Until something rings, the server notifies, or the time is over, with an ear for a
        stop. A ring means that a slot is free, in the crew or in a channel. Not at all on a new
        connection: what was notified before it is unknown."""
        listening = conn if self._options.listen else None
        end = time.monotonic() + seconds
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            if self._link.opened != self._asked_on:
                return
            # Asked first: a notification may have come along with the answer to a query, and wait
            # in libpq, where polling the socket does not see it.
            self._is_notified = is_notified(listening)
            if self._is_notified or self._bell.wait(min(left, STOP_SECONDS), listening):
                return

    def _end(self) -> None:
        """Give back what waits, let the crew end what it is at, tell all of it."""
        self._give_back()
        self._crew.close()
        self._completions.close()
        self._over.set()
        self._heartbeats.close()
        self._link.close()
        self._bell.close()

    def _give_back(self) -> None:
        waiting = self._hand.waiting
        while waiting:
            # Handlers, which end what they are at, may be quicker.
            with suppress(IndexError):
                self._completions.ended(Ending(waiting.popleft(), Kind.GIVE_BACK))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._over.set()
        self._bell.ring()

    def _listen(self, conn: Connection) -> None:
        if self._options.listen and not db.is_pooled(conn):
            conn.add_notify_handler(lambda _notify: self._bell.ring())
            conn.execute(sql.query("queue_listen", self.schema))

    def _make_link(self, ended: Event) -> Link:
        options = self._options
        return Link(self.url, self.schema, options.channel, not options.listen, ended)

    def _make_crew(self) -> Crew:
        place = Place(self.definition, self.url, self.schema, self._completions, self.stop)
        parts = Parts(
            self._options.channel, self._options.concurrency, self._hand, self._completions,
            self._bell, self._fail,
        )  # fmt: skip
        is_transactional = self.definition.is_transactional
        if self.definition.is_async:
            make_async = TransactionalAsyncCall if is_transactional else PlainAsyncCall
            return Tasks(parts, lambda: make_async(place))
        make = TransactionalCall if is_transactional else PlainCall
        return Threads(parts, lambda: make(place))


def is_notified(conn: Connection | None) -> bool:
    """Whether it is now, asked of libpq: conn.notifies() takes longer than handing a job over. What
    came with the answer to a query has rung the bell already."""
    if conn is None:
        return False
    conn.pgconn.consume_input()
    found = False
    while conn.pgconn.notifies() is not None:
        found = True
    return found
