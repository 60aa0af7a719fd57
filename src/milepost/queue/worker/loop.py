"""Runs a worker: takes jobs before its handlers need them, and waits when there are none.

The parts: this thread takes, a pool of handlers handles, one thread settles, one sends heartbeats.
Each has its own lease of a connection. An error of any part ends the worker, and is raised.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from milepost import db
from milepost.queue.outcome import Ending, Kind
from milepost.queue.worker.begins import Gate
from milepost.queue.worker.buffer import Ahead
from milepost.queue.worker.calling.batches import pool_of
from milepost.queue.worker.heartbeats import Heartbeats
from milepost.queue.worker.idle import Look, Pause, Polls, Resting, is_drained
from milepost.queue.worker.settle import Settler
from milepost.queue.worker.shared import TAKING, Shared
from milepost.queue.worker.take import Taker
from milepost.runtime import Stopping, is_transient, waking
from milepost.telemetry import otel

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable
    from threading import Event

    import psycopg

    from milepost.handlers import Handler
    from milepost.queue.definition import Definition
    from milepost.records import TakenJob
    from milepost.runtime import Runtime, Until, Watch

STOP_SECONDS = 0.2  # the longest that a worker with nothing to do takes to notice a stop
# No more jobs wait: before it asks again, this thread releases the interpreter for long enough that
# the handler it has woken may begin.
HANDOVER_SECONDS = 0.00005
LOOK_SECONDS = 0.05  # between two looks at what runs, and at what waits for busy handlers
RECOVERED = "MP090"
log = logging.getLogger("milepost.queue")


class Runner:
    def __init__(
        self,
        definition: Definition,
        runtime: Runtime,
        stop: Event,
        handler: Handler | None = None,
    ) -> None:
        self._shared = Shared(definition, runtime, stop, handler)
        self._bell, self._buffer = self._shared.bell, self._shared.buffer
        options = self._options = definition.options
        self._held_seconds = runtime.timing.held_seconds
        self._ahead = Ahead(
            options.batch,
            self._shared.jobs_at_a_time,
            self._held_seconds,
            self._shared.rates.slow,
        )
        self._taker = Taker(
            options.channel, options.lock, runtime.schema, is_durable=False, is_ahead=True
        )
        self._lease = self._shared.lease(on_notice=log_recovered)
        self._watching = ExitStack()
        self._watch: Watch | None = None
        self._has_news = False  # the server has notified
        self._is_woken = False  # by news, while it waited
        self._idle = 0
        self._looked_at = 0.0
        self._stalled_by: set[TakenJob] = set()  # while all run, no handler is free

    def run(self, until: Until = "stopped") -> None:
        """Until a stop is requested, or until nothing is left to do. If the server cannot be
        reached at first, it fails immediately. Afterwards it waits for the server."""
        with ExitStack() as stack:
            stack.callback(self._bell.close)
            stack.callback(self._lease.close)
            with self._lease as conn:
                db.check_schema(conn, self._shared.schema)
            self._start(stack)
            stack.callback(self._watching.close)
            # Behind a pooler another client would be notified.
            is_direct = not db.leads_to_pgbouncer(self._shared.runtime.url)
            if until == "stopped" and self._options.listen and is_direct:
                self._open_watch()
            stack.enter_context(waking(self._shared.stop, self._bell.ring))
            try:
                self._take_all(until)
            except Stopping:
                log.info("worker=%s stops without the server", self._options.channel)
        if self._shared.failure is not None:
            raise self._shared.failure

    def _start(self, stack: ExitStack) -> None:
        self._settler = Settler(self._shared)
        self._pool = pool_of(self._shared.definition)(self._shared, self._settler)
        self._heartbeats = Heartbeats(self._shared, self._pool.cancel)
        if self._shared.definition.is_transactional:
            self._connect_first(stack)
        self._gate = Gate(self._shared, self._lease, self._settler, self._pool)
        stack.callback(self._gate.close)
        for part in (self._settler, self._heartbeats, self._pool):
            part.start()
        stack.callback(self._end)

    def _connect_first(self, stack: ExitStack) -> None:
        """Its own connections, before handlers take all that the server gives."""
        for lease in (self._settler.lease, self._heartbeats.lease):
            stack.callback(lease.close)
            with lease:
                pass
        wanted, possible = self._options.concurrency, self._shared.concurrency
        if possible < wanted:
            log.warning(
                "worker=%s has concurrency=%s, but runs only %s handlers: each needs a connection "
                "for its transaction, and max_connections=%s leaves %s for handlers. Pass "
                "Milepost(max_connections=%s) or more, or a lower concurrency.",
                self._options.channel,
                wanted,
                possible,
                self._shared.runtime.connections.most,
                possible,
                wanted + self._shared.runtime.connections.own + TAKING,
            )

    def _take_all(self, until: Until) -> None:
        pause = Pause(self._options.poll_seconds)
        seen: Look | None = None
        while not self._shared.stop.is_set() and self._shared.failure is None:
            if not (count := self._wanted()):
                self._bell.wait(self._look_seconds())
                continue
            if jobs := self._take(count):
                self._admit(jobs)
                if len(jobs) < count:
                    time.sleep(HANDOVER_SECONDS)
                pause, seen = Pause(self._options.poll_seconds), None
            elif until != "stopped" and self._is_drained():
                return
            elif seen is None:
                # Before the last attempt to take: a put without a notification is found by that,
                # or seen in flight by this.
                seen = self._lease.run(self._taker.look)
            else:
                seconds, pause = pause.after(seen)
                seen = None
                self._rest(seconds)

    def _wanted(self) -> int:
        now, waiting = time.monotonic(), len(self._buffer.waiting)
        buffered = waiting + len(self._buffer.gated)
        self._ahead.note(self._buffer.taken - buffered, now)
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._shared.rates.look(self._running(), now)
        running = max(0, len(self._buffer) - buffered - self._settler.pending)
        if buffered and running and self._waits_too_long(now):
            self._give_back_excess()
        idle = self._idle = self._idle_of(running)
        if not self._gate.may_take(idle - waiting):
            return 0
        self._buffer.low = self._ahead.ahead(now) // 2
        return self._ahead.wanted(idle, buffered, now)

    def _idle_of(self, running: int) -> int:
        """How many jobs handlers can begin now. A handler is also busy with a short list."""
        if self._stalled_by and self._stalled_by <= self._running():
            return 0
        self._stalled_by = set()
        at_a_time = self._shared.jobs_at_a_time
        if self._options.handle == "batch":
            running = max(running, len(self._buffer.lists) * self._options.batch)
        return max(0, at_a_time - running)

    def _running(self) -> set[TakenJob]:
        """The jobs that handlers have."""
        return set(self._buffer.begun()) - self._settler.unsettled()

    def _waits_too_long(self, now: float) -> bool:
        since = self._buffer.waits_since()
        return since is not None and now - since >= self._held_seconds

    def _give_back_excess(self) -> None:
        """What the handlers would not begin soon, as few as they begin now: other workers may be
        free."""
        kept = self._ahead.recent
        if not kept:
            self._stalled_by = self._running()
            if not self._gate.has_suspect:
                self._give_back_all(self._buffer.gated)
        self._give_back_all(self._buffer.waiting, kept)

    def _look_seconds(self) -> float:
        return LOOK_SECONDS if self._buffer.waits_since() is not None else STOP_SECONDS

    def _admit(self, jobs: list[TakenJob]) -> None:
        """Those of slow channels that would wait for long go back immediately."""
        if self._shared.rates.slow:
            waiting = list(self._buffer.waiting.copy())
            free = self._idle - len(waiting)
            back = self._ahead.too_slow(jobs, waiting, max(0, free), time.monotonic())
            if back:
                self._buffer.add(list(back))
                self._buffer.taken -= len(back)
                self._end_unbegun(back)
                jobs = [job for job in jobs if job not in back]
        self._gate.admit(jobs)

    def _take(self, count: int) -> list[TakenJob]:
        # From before it is asked for: the server counts from later.
        deadline = time.monotonic() + self._options.lock
        # A worker that was woken has a job to take. The duties come with the next take, soon after.
        with_duties, self._is_woken = not self._is_woken, False
        began = time.perf_counter()
        jobs = self._lease.run(lambda conn: self._taker.take(conn, count, with_duties=with_duties))
        if otel is not None and jobs:
            otel.received("take", len(jobs), began, [self._options.channel])
        now = time.monotonic()
        for job in jobs:
            job.deadline, job.taken_at = deadline, now
        return jobs

    def _is_drained(self) -> bool:
        """Looked first whether jobs are held: what is settled in between may come back."""
        if len(self._buffer):
            return False
        channel, schema = self._options.channel, self._shared.schema
        return self._lease.run(lambda conn: is_drained(conn, schema, channel))

    def _rest(self, seconds: float) -> None:
        """Until the bell rings, or the time is over; notices a stop. The bell means news, or that a
        slot is free, in the pool or in a channel."""
        if self._watch is not None and self._watch.watcher.is_over() and self._reopen_watch():
            return  # what was notified meanwhile is unknown
        if self._buffer.waits_since() is not None:
            seconds = min(seconds, LOOK_SECONDS)
        polls, is_shared = self._shared.runtime.part(Polls), self._is_polled_for(seconds)
        one = Resting(self._options.channel, seconds, self._bell.ring)
        with polls.resting(one, is_shared=is_shared):
            while not self._shared.stop.is_set():
                if (left := one.until - time.monotonic()) > 0:
                    if self._bell.wait(min(left, STOP_SECONDS)):
                        self._is_woken, self._has_news = self._has_news, False
                        return
                elif is_shared:
                    polls.poll(one, self._lease)
                else:
                    return

    def _is_polled_for(self, seconds: float) -> bool:
        """Together with other idle workers: not one that holds jobs, or that knows of one which is
        due; nor while looks are slow, where it remembers what need not be looked at."""
        is_idle = seconds == self._options.poll_seconds and not len(self._buffer)
        return is_idle and self._watch is not None and not self._taker.rotation.is_slow

    def _open_watch(self) -> None:
        watching = self._shared.runtime.watching(
            self._options.poll_seconds, self._notified, self._heartbeats.look
        )
        self._watch = self._watching.enter_context(watching)

    def _reopen_watch(self) -> bool:
        """Whether it could. Until then the worker polls."""
        self._watching.close()
        try:
            self._open_watch()
        except Exception as error:
            if not is_transient(error):
                raise
            return False
        return True

    def _notified(self) -> None:
        self._has_news = True
        self._bell.ring()

    def _end(self) -> None:
        """Give back what waits, let the handlers finish, settle all."""
        self._give_back_all(self._buffer.gated)
        self._give_back_all(self._buffer.waiting)
        self._pool.close()
        self._settler.close()
        self._shared.over.set()
        self._heartbeats.close()

    def _give_back_all(self, jobs: deque[TakenJob], leave: int = 0) -> None:
        self._end_unbegun(self._buffer.take_off(jobs, leave))

    def _end_unbegun(self, jobs: Iterable[TakenJob]) -> None:
        for job in jobs:
            self._taker.rotation.gave_back(job)
            self._settler.ended(Ending(job, Kind.GIVE_BACK))


def log_recovered(notice: psycopg.errors.Diagnostic) -> None:
    """An attempt whose worker was gone before it could say that it failed; see
    recover_expired.sql."""
    if notice.sqlstate == RECOVERED:
        level = logging.ERROR if notice.message_detail == "dead" else logging.WARNING
        log.log(level, "%s", notice.message_primary)
