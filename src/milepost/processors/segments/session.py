"""One session of an instance of a segmented processor: it reads the log once for all segments that
it has claimed, gives them their messages, and reports. The pool's threads handle them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import psycopg

from milepost.log import horizon, start_position
from milepost.processors.progress import has_seen, standings
from milepost.processors.segments.claims import Claims
from milepost.processors.segments.dispatch import Dispatch
from milepost.processors.segments.keeper import Keeper
from milepost.processors.segments.pool import DEFAULT_THREADS, Pool, thread_leases
from milepost.processors.segments.serve import Service, Tally
from milepost.processors.segments.setbacks import LONGEST_SECONDS, PAUSE_BEATS, Setbacks
from milepost.processors.self_checkpointing.work import log_mode, work_of
from milepost.processors.session import STOP_SECONDS, ProcessorSession
from milepost.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from milepost.log import Batch
    from milepost.records import Position
    from milepost.runtime import Lease, Until

log = logging.getLogger("milepost.processors")
SETTLE_SECONDS = 0.02  # between two looks whether it has caught up


@dataclass(slots=True)
class SegmentedSession(ProcessorSession):
    """Connections: one that reads and reports, the keeper's, and one or two for each thread of the
    pool."""

    _dispatch: Dispatch = field(init=False)
    _keeper: Keeper = field(init=False)
    _keeping: Lease = field(init=False)
    _pool: Pool = field(init=False)
    _claims: Claims = field(init=False)
    _tally: Tally = field(default_factory=Tally, init=False)
    _target: Position | None = field(default=None, init=False)
    _flushed: set[tuple[int, int]] = field(default_factory=set, init=False)
    # Of the session, not of the process: what leaves must still be given back after a stop.
    _over: Event = field(default_factory=Event, init=False)

    def is_lost(self) -> bool:
        return self.lease.is_lost() or self._keeping.is_lost() or self._pool.is_lost()

    def run(self, until: Until) -> None:
        """Read and deal until a stop is requested, or until all segments have caught up."""
        self.oversee(until)
        self._read_and_deal(until)
        self._give_back()  # before the last report: what was being handled counts in it
        self._report()
        self._dispatch.check()  # what failed as the last batch was handled

    def _read_and_deal(self, until: Until) -> None:
        while not self.stop.is_set():
            self._dispatch.check()
            self._report()
            if self._follow_orders():
                continue
            if self.watch is not None:
                self.watch.clear()
            batch = self._feed()
            if until != "stopped" and (batch is None or not batch.is_full):
                if self._has_caught_up():
                    return
                self._dispatch.wait_for_room(SETTLE_SECONDS)
            elif batch is None:
                self._dispatch.wait_for_room(STOP_SECONDS)
            elif not batch.is_full:
                # Failures are noticed soon: nothing else tells this thread of them.
                self.rest(min(self.options.poll_seconds, STOP_SECONDS))

    def _open(self) -> None:
        self.open_lease()
        options = self.options
        log_mode(self.definition)
        self._claims = Claims(options.key, self.status.owner, options.claim_seconds, self.schema)
        with self.lease as conn:
            # Give back what an earlier session of this instance held.
            self._claims.leave(conn)
            start = start_position(conn, options.start_from, self.schema)
            self._claims.create(conn, self.definition.segments or 1, start)
        self._start()

    def _start(self) -> None:
        options, timing = self.options, self.runtime.timing
        connections, name = self.runtime.connections, options.name
        self._dispatch = Dispatch(options.batch_size, timing.advance_seconds)
        around = self.surroundings(self._tally.retry)
        beat_seconds = min(timing.beat_seconds, options.claim_seconds / 3)
        setbacks = Setbacks(
            Retry(first_seconds=PAUSE_BEATS * beat_seconds, longest_seconds=LONGEST_SECONDS)
        )
        service = Service(options, self._dispatch, self._claims, self._tally, setbacks)
        make_leases = partial(
            thread_leases, self.definition, connections, self.schema, self.loop, self._over
        )
        limit = options.concurrency or DEFAULT_THREADS
        self._pool = Pool(name, limit, self._dispatch, service, make_leases)
        self._keeping = connections.lease(name, self._over, is_own=True)
        self._keeper = Keeper(
            claims=self._claims,
            lease=self._keeping,
            dispatch=self._dispatch,
            setbacks=setbacks,
            make_work=work_of(around, self.loop, self._dispatch.wake, self._dispatch.holds),
            rate=self._tally.rate,
            on_claimed=self._pool.grow,
            beat_seconds=beat_seconds,
        )
        self._stack.callback(self._close)
        self._keeper.start()

    def _give_back(self) -> None:
        """Everything, while the keeper still keeps it, so that others take over immediately."""
        self._keeper.leave()
        self._dispatch.leave()
        while not self.is_lost() and not self._dispatch.wait_until_empty(STOP_SECONDS):
            pass  # handlers finish, unless the server is lost

    def _close(self) -> None:
        """What cannot be given back expires."""
        self._give_back()
        self._dispatch.close()
        self._pool.join()
        for work in self._dispatch.works():
            work.lost(None)
        self._keeper.stop()
        try:
            with self._keeping as conn:
                self._claims.leave(conn)
        except psycopg.OperationalError as error:
            # What ended the session is what the supervisor must see. The claims expire.
            log.warning("processor=%s claims not given back: %s", self.options.name, error)
        finally:
            self._keeping.close()

    def _feed(self) -> Batch | None:
        """Read for those who can take more; None if nobody can."""
        reading = self._dispatch.next_reading()
        if reading is None:
            return None
        batch = self.read(reading.after, reading.batch_size)
        self._dispatch.deal(reading, batch)
        return batch

    def _has_caught_up(self) -> bool:
        """Whether all segments, of all instances, are past the horizon as it was when this instance
        had first handled all that it had read. Its own it knows better than the database, where
        a deferred checkpoint is lower."""
        orders = self.overseen.orders
        if not self._dispatch.is_drained() or orders.is_paused or orders.has_retries:
            return False
        if self._target is None:
            with self.lease as conn:
                self._target = horizon(conn, self.schema).position
        feed, (here, _) = self._dispatch.position, self._dispatch.epochs()
        if here and (feed is None or feed < self._target):
            return False
        if not self._dispatch.is_drained():
            return False  # claimed meanwhile, by the keeper: not all of them are where the feed is
        with self.lease as conn:
            number = len(standings(conn, self.schema, self.options.key))
        if len(here) < number:
            self._flush_for_others(here)
        if not self._dispatch.flush():
            return False
        with self.lease as conn:
            return has_seen(conn, self.schema, self.options, self._target, besides=here)

    def _flush_for_others(self, here: Mapping[int, int]) -> None:
        """Another instance that waits to have caught up looks at what is stored. Once for each
        claim, also for those that came after the horizon was taken: or each instance would wait
        for what the other has handled and not stored."""
        claims = {(work.segment.id, work.claim.epoch): work for work in self._dispatch.works()}
        late = (claims.keys() & here.items()) - self._flushed
        for claim in late:
            claims[claim].flush()
        self._flushed |= late

    def _follow_orders(self) -> bool:
        """Whether the operators want nothing to be read now."""
        has_news = self.look_at_orders()
        orders = self.overseen.orders
        self._dispatch.pause(is_paused=orders.is_paused)
        if self.wait_while_paused():
            self._dispatch.check()
            return True
        if orders.has_retries and has_news:
            for work in self._dispatch.works():
                work.ask_to_retry()
        return False

    def _report(self) -> None:
        messages, error = self._tally.taken()
        if messages and (reached := self._dispatch.position) is not None:
            with self.lease as conn:
                self.status.batch(conn, messages, reached)
        elif error is None:
            self.report_idle()
        if error is not None:
            self.report_error(error)
