"""How a pool thread serves a claimed segment: begin it, handle a batch, give it back, drop it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, assert_never

import psycopg

from milepost.checkpoints import Answer, advance_all
from milepost.errors import SegmentsGivenBack, describe
from milepost.log import Batch, Horizon, Selection, read_batch
from milepost.processors.deliver.transaction import Conflict
from milepost.processors.segments.claimed_segment import Phase
from milepost.processors.segments.work import Abandoned
from milepost.processors.self_checkpointing.participants import ClaimOver
from milepost.runtime import Stopping
from milepost.telemetry import otel

if TYPE_CHECKING:
    from milepost.checkpoints import Advance
    from milepost.processors.definition import ProcessorOptions
    from milepost.processors.deliver.attempts import Failure
    from milepost.processors.segments.claimed_segment import ClaimedSegment
    from milepost.processors.segments.claims import Claims
    from milepost.processors.segments.dispatch import Dispatch
    from milepost.processors.segments.pool import ThreadLeases
    from milepost.processors.segments.setbacks import Setbacks

RATE_SECONDS = 5.0
log = logging.getLogger("milepost.processors")


@dataclass(slots=True)
class Tally:
    """What the pool threads have done, for the one thread that reports it."""

    _lock: Lock = field(default_factory=Lock, init=False)
    _messages: int = field(default=0, init=False)
    _error: str | None = field(default=None, init=False)
    _counted: int = field(default=0, init=False)  # since `_since`
    _since: float | None = field(default=None, init=False)
    _rate: float = field(default=0.0, init=False)

    def add(self, messages: int) -> None:
        if messages:
            with self._lock:
                self._messages += messages
                self._counted += messages

    def retry(self, failure: Failure) -> None:
        self.fail(failure.summary())

    def fail(self, error: str) -> None:
        with self._lock:
            self._error = error

    def taken(self) -> tuple[int, str | None]:
        """What came since the last call: messages, and the last error."""
        with self._lock:
            messages, error = self._messages, self._error
            self._messages, self._error = 0, None
            return messages, error

    def rate(self) -> float:
        """Messages a second, over the last seconds."""
        with self._lock:
            now = time.monotonic()
            if self._since is None:
                self._since = now
            elif now - self._since >= RATE_SECONDS:
                self._rate = self._counted / (now - self._since)
                self._counted, self._since = 0, now
            return self._rate


@dataclass(frozen=True, slots=True)
class Service:
    options: ProcessorOptions
    dispatch: Dispatch
    claims: Claims
    tally: Tally
    setbacks: Setbacks

    def serve(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        """After whatever was raised, no further message is handled under this claim: those that
        were taken are not done, and the next ones must not overtake them."""
        try:
            self._serve(segment, leases)
        except Stopping:
            with self.dispatch.lock:
                segment.interrupted()
        except Conflict as conflict:
            self._lose_to(segment, conflict)
        except ClaimOver:
            self._lose(segment)
            self._say(segment, "lost: its time was over, or another instance has it")
        except Abandoned as abandoned:
            self._lose(segment)
            self._set_back(segment, leases, f"abandoned: {abandoned}")
        except BaseException as error:
            self._lose(segment)
            # Before it is put back: else the feed could find that all is handled, and end.
            self.dispatch.fail(error)
            self._note(segment, leases, describe(error))
            raise
        finally:
            self.dispatch.put_back(segment)

    def _serve(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        with self.dispatch.lock:
            phase = segment.phase
        match phase:
            case Phase.CLAIMED:
                self._begin(segment, leases)
            case Phase.WORKING:
                self._handle(segment, leases)
            case Phase.LEAVING:
                self._give_back(segment, leases)
            case Phase.LOST:
                self._drop(segment, leases)
            case _:
                assert_never(phase)

    def _lose(self, segment: ClaimedSegment) -> None:
        with self.dispatch.lock:
            segment.lose()

    def _set_back(self, segment: ClaimedSegment, leases: ThreadLeases, what: str) -> None:
        """Given back with an error: others come first. An instance that gives back everything, and
        more often than `retry` allows, ends: it would only hold up what it takes."""
        self._note(segment, leases, what)
        self._credit(segment)
        times = self.setbacks.note(segment.id, segment.claimed_at, time.monotonic())
        if times > self.options.retry.limit and not self.dispatch.is_working():
            self.dispatch.fail(SegmentsGivenBack(self.options.name, segment.id, times, what))

    def _credit(self, segment: ClaimedSegment) -> None:
        if segment.work.has_progressed:
            self.setbacks.progressed(segment.id)

    def _begin(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        try:
            segment.work.claimed(leases)
        except Exception as error:
            if leases.is_lost() or isinstance(error, Abandoned | ClaimOver):
                raise
            raise Abandoned(f"claiming it failed: {describe(error)}") from error
        with self.dispatch.lock:
            segment.begun()
        segment.work.retry(leases)
        self._say(segment, f"claimed at {segment.claim.position}")

    def _handle(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        batch = self.dispatch.next_batch(segment) or self._read(segment, leases)
        now = time.monotonic()
        with self.dispatch.lock:
            is_due = bool(batch.messages) or segment.is_advance_due(now)
        if is_due:
            if not self.dispatch.holds(segment.claim):
                raise ClaimOver
            advance = None if batch.messages else segment.work.advance(batch.reached)
            if advance is not None:
                self._advance(segment, advance, leases)
            else:
                segment.work.deliver(batch, leases)
                with self.dispatch.lock:
                    segment.delivered(batch, now)
                self.tally.add(len(batch.messages))
        segment.work.tend(leases)
        self._credit(segment)
        segment.work.retry(leases)

    def _advance(self, segment: ClaimedSegment, advance: Advance, leases: ThreadLeases) -> None:
        """Past what was filtered out, together with all that have nothing else to do: each by
        itself would be a transaction of its own."""
        others = self.dispatch.take_advancing()
        try:
            advances = [advance, *others.values()]
            with leases.sync as conn:
                answers = advance_all(conn, advances, self.claims.owner, self.claims.schema)
            for (other, its_advance), answer in zip(others.items(), answers[1:], strict=True):
                try:
                    self._advanced(other, its_advance, answer)
                except Conflict as conflict:
                    self._lose_to(other, conflict)
            self._advanced(segment, advance, answers[0])
        finally:
            for other in others:
                self.dispatch.put_back(other)

    def _advanced(self, segment: ClaimedSegment, advance: Advance, answer: Answer | None) -> None:
        """One whose checkpoint is locked advances the next time."""
        passed = segment.passed
        if answer is not None:
            if answer is not Answer.STORED:
                raise Conflict(answer)
            passed = segment.work.checkpoint = advance.new
        with self.dispatch.lock:
            segment.advanced(passed, time.monotonic())

    def _lose_to(self, segment: ClaimedSegment, conflict: Conflict) -> None:
        self._lose(segment)
        self._say(segment, f"lost: the store answered {conflict}")

    def _read(self, segment: ClaimedSegment, leases: ThreadLeases) -> Batch:
        """Catch up with the feed: its own messages only, up to where the feed is now."""
        options, feed = self.options, self.dispatch.position
        selection = Selection(options.topics, options.types, segment.claim.segment)
        limit = Horizon(feed or segment.reached, is_held=False)
        began = time.perf_counter()
        with leases.sync as conn:
            batch = read_batch(
                conn,
                segment.reached,
                limit,
                selection,
                options.batch_size,
                self.claims.schema,
                history=segment.work.history,
            )
        if otel is not None and batch.messages:
            otel.received("read", len(batch.messages), began, options.topics, options.name)
        if not batch.is_full:
            segment.work.history.leave()  # from here on the feed reads for it
        with self.dispatch.lock:
            segment.reached = batch.reached
        return batch

    def _give_back(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        """A participant that fails must not keep the segment from the others."""
        try:
            segment.work.released(leases)
        except Exception as error:
            if leases.is_lost() or isinstance(error, ClaimOver):
                raise
            self._set_back(segment, leases, f"releasing it failed: {describe(error)}")
        else:
            self._credit(segment)
        self._release(segment, leases)
        self.dispatch.remove(segment)
        self._say(segment, "released")

    def _drop(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        """Given back too, if it is still ours. Kept here until then: this instance must not claim
        it again before it has ended here."""
        try:
            problem = segment.work.lost(leases)
            if problem is not None:
                self._note(segment, leases, problem)
            self._release(segment, leases)
        finally:
            self.dispatch.remove(segment)

    def _release(self, segment: ClaimedSegment, leases: ThreadLeases) -> None:
        with leases.sync as conn:
            self.claims.release(conn, segment.id, segment.claim.epoch)

    def _say(self, segment: ClaimedSegment, what: str, level: int = logging.INFO) -> None:
        name, epoch = self.options.name, segment.claim.epoch
        log.log(level, "processor=%s segment=%s epoch=%s %s", name, segment.id, epoch, what)

    def _note(self, segment: ClaimedSegment, leases: ThreadLeases, what: str) -> None:
        """In the log, in the state of the instance, and with the segment."""
        self._say(segment, what, logging.WARNING)
        self.tally.fail(f"segment {segment.id}, {self.claims.owner}: {what}")
        if leases.is_lost():
            return
        try:
            with leases.sync as conn:
                self.claims.note_error(conn, segment.id, what)
        except psycopg.Error as error:
            log.warning("processor=%s error not noted: %s", self.options.name, error)
