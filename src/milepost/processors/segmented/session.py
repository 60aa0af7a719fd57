"""One stretch of a segmented instance's life: threads around one board, until something ends it.

The thread that runs it is the feed: it reads the log and deals. The keeper tends the claims, the
pool handles. Whatever one of them fails with is raised here.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost import db
from milepost.log import Reader, horizon, start_position
from milepost.log.pace import Pace
from milepost.processors.colour import EventLoop
from milepost.processors.parking import refuse_pooled
from milepost.processors.report import ORDERS_SECONDS, Reporter
from milepost.processors.segmented.board import Board
from milepost.processors.segmented.claims import Claim, Claims
from milepost.processors.segmented.hands import open_hands
from milepost.processors.segmented.keeper import Keeper
from milepost.processors.segmented.modes import MakeWork, log_mode, work_of
from milepost.processors.segmented.pool import DEFAULT_THREADS, Pool
from milepost.processors.segmented.progress import has_seen, standings
from milepost.processors.segmented.service import Service
from milepost.processors.segmented.tally import Tally
from milepost.processors.segmented.work import Surroundings
from milepost.processors.stretch import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.checkpoints import Checkpoint
    from milepost.db import Connection
    from milepost.log import Batch
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.processors.segmented.board import Reading
    from milepost.processors.segmented.work import SegmentWork
    from milepost.processors.session import Until
    from milepost.records import Position

log = logging.getLogger("milepost.processors")
STOP_SECONDS = 0.5  # the longest that it takes to notice a stop or a failure
SETTLE_SECONDS = 0.02  # between two looks whether it has caught up


@dataclass(slots=True)
class SegmentedSession(Stretch):
    """Connections: one that reads and waits, one that reports, the keeper's, and one or two for
    each thread of the pool."""

    definition: Definition
    url: str = field(repr=False)
    schema: str
    reporter: Reporter
    stop: Event
    _conn: Connection = field(init=False)
    _reader: Reader = field(init=False)
    _board: Board = field(init=False)
    _keeper: Keeper = field(init=False)
    _pool: Pool = field(init=False)
    _claims: Claims = field(init=False)
    _tally: Tally = field(default_factory=Tally, init=False)
    _target: Position | None = field(default=None, init=False)
    _flushed: set[tuple[int, int]] = field(default_factory=set, init=False)
    _make: MakeWork = field(init=False)
    _has_retries: bool = field(default=False, init=False)

    def is_lost(self) -> bool:
        """Whether one of the connections is gone."""
        conns = (self._conn, self._reader.conn, self._keeper.conn)
        return any(conn.closed for conn in conns) or self._pool.is_lost()

    @property
    def conn(self) -> Connection:
        return self._conn

    def checkpoint(self) -> Checkpoint | None:
        """There are many; whose owner is whose is settled by claims."""
        return None

    def run(self, until: Until) -> None:
        """Read and deal until a stop is asked for, or until all segments have caught up."""
        self._read_and_deal(until)
        self._give_back()  # before the last report: what is in hand counts in it
        self._report()
        self._board.check()  # what failed as the last batch was handled

    def _read_and_deal(self, until: Until) -> None:
        self._reader.listen()
        pace = Pace(self._options.poll_seconds)
        while not self.stop.is_set():
            self._board.check()
            self._report()
            if self._follow_orders():
                continue
            before, batch = self._reader.after, self._feed()
            if until != "stopped" and (batch is None or not batch.is_full):
                if self._has_caught_up():
                    return
                self._board.wait_for_room(SETTLE_SECONDS)
            elif batch is None:
                self._board.wait_for_room(STOP_SECONDS)
            else:
                seconds, pace = pace.after(
                    is_full=batch.is_full,
                    is_fruitful=batch.reached > before,
                    is_held=batch.is_held,
                )
                self._rest(seconds)

    @property
    def _options(self) -> ProcessorOptions:
        return self.definition.options

    def _open(self) -> None:
        options = self._options
        name = f"milepost {options.name}"[:63]
        self._conn, reading, keeping = (
            self._stack.enter_context(db.connect(self.url, application_name=name)) for _ in range(3)
        )
        for conn in (self._conn, reading, keeping):
            db.detect_dead_peers(conn)
        db.check_schema(self._conn, self.schema)
        refuse_pooled(options, self._conn)
        has_reset_handlers = bool(self.definition.reset_handlers)
        mode = self.definition.mode
        self.reporter.register(self._conn, has_reset_handlers=has_reset_handlers, mode=mode)
        log_mode(self.definition)
        owner, key = self.reporter.owner, options.key
        self._claims = Claims(key, owner, options.claim_seconds, self.schema)
        self._create_segments()
        self._reader = Reader(
            reading, selection=options.selection, schema=self.schema, keeps_raw=True
        )
        loop = EventLoop(options.name) if self.definition.is_async else None
        if loop is not None:
            self._stack.callback(loop.close)
        self._start(keeping, loop)

    def _create_segments(self) -> None:
        """If nobody has; and give back what an earlier session of this instance held."""
        self._claims.leave(self._conn)
        start = start_position(self._conn, self._options.start_from, self.schema)
        self._claims.create(self._conn, self.definition.segments or 1, start)

    def _start(self, keeping: Connection, loop: EventLoop | None) -> None:
        options = self._options
        around = Surroundings(
            self.definition, self.reporter.owner, self.schema, self.stop, self._tally.retry
        )
        self._make = work_of(around, loop)
        self._board = Board(options.batch_size)
        service = Service(options, self._board, self._claims, self._tally)
        connect = partial(open_hands, self.definition, self.url, self.schema, loop)
        limit = options.concurrency or DEFAULT_THREADS
        self._pool = Pool(options.name, limit, self._board, service, connect)
        self._keeper = Keeper(
            self._claims, keeping, self._board, self._make_work, self._tally.rate, self._pool.grow
        )
        self._stack.callback(self._close)
        self._keeper.start()

    def _make_work(self, claim: Claim) -> SegmentWork:
        return self._make(claim, partial(self._board.wake, claim))

    def _give_back(self) -> None:
        """Everything, while the keeper still keeps it, so that others take over at once."""
        self._keeper.leave()
        self._board.leave()
        while not self.is_lost() and not self._board.wait_until_empty(STOP_SECONDS):
            pass  # what is in hand comes to its end, unless the server is lost

    def _close(self) -> None:
        """What cannot be given back expires."""
        self._give_back()
        self._board.close()
        self._pool.join()
        for work in self._board.works():
            work.lost(None)
        self._keeper.stop()
        try:
            self._claims.leave(self._conn)
        except psycopg.OperationalError as error:
            # Whatever ended the session is what the runner is to see; the claims expire.
            log.warning("processor=%s claims not given back: %s", self._options.name, error)

    def _feed(self) -> Batch | None:
        """Read for those who can take more; None if nobody can."""
        reading = self._board.next_reading()
        if reading is None:
            return None
        batch = self._read(reading)
        self._board.deal(reading, batch)
        return batch

    def _read(self, reading: Reading) -> Batch:
        self._reader.after = reading.after
        self._reader.batch_size = reading.batch_size
        return self._reader.read()

    def _rest(self, seconds: float) -> None:
        """Until a wake-up comes, or for that long, with an ear for a stop and for failures."""
        end = time.monotonic() + seconds
        while not self.stop.is_set() and (left := end - time.monotonic()) > 0:
            notifies = self._reader.conn.notifies(timeout=min(left, STOP_SECONDS), stop_after=1)
            if list(notifies):
                return
            self._board.check()

    def _has_caught_up(self) -> bool:
        """Whether all segments, whoever has them, are past the horizon as it was when this instance
        had first handled all that it had read. Its own it knows better than the database, where
        a deferred checkpoint stands lower."""
        if not self._board.is_drained() or self.reporter.state == "paused" or self._has_retries:
            return False
        if self._target is None:
            self._target = horizon(self._conn, self.schema).position
        feed, (here, _) = self._board.position, self._board.epochs()
        if here and (feed is None or feed < self._target):
            return False
        if not self._board.is_drained():
            return False  # claimed meanwhile, by the keeper: not all of them are where the feed is
        self._flush_for_others(here)
        options = self._options
        return self._board.flush() and has_seen(
            self._conn, self.schema, options, self._target, besides=here
        )

    def _flush_for_others(self, here: Mapping[int, int]) -> None:
        """Another instance that waits to have caught up looks at what is stored. Once for each
        claim, and for those that came after the horizon was taken as well: or each instance would
        wait for what the other has handled and not stored."""
        claims = {(work.segment.id, work.claim.epoch): work for work in self._board.works()}
        late = (claims.keys() & here.items()) - self._flushed
        if late and len(here) < len(standings(self._conn, self.schema, self._options.key)):
            for claim in late:
                claims[claim].flush()
            self._flushed |= late

    def _follow_orders(self) -> bool:
        """Whether the operators want nothing to be read now."""
        orders = self.reporter.orders(self._conn)
        self._has_retries = orders.has_retries
        self._board.pause(is_paused=orders.is_paused)
        if orders.is_paused:
            self.reporter.change(self._conn, "paused")
            self._board.check()
            self.stop.wait(ORDERS_SECONDS)
        elif orders.has_retries and orders.is_fresh:
            for work in self._board.works():
                work.ask_to_retry()
        return orders.is_paused

    def _report(self) -> None:
        messages, failure = self._tally.taken()
        if messages and (reached := self._board.position) is not None:
            self.reporter.batch(self._conn, messages, reached)
        elif failure is None:
            self.reporter.idle(self._conn)
        if failure is not None:
            self.reporter.claim()
            self.reporter.change(self._conn, "retrying", failure.summary())
