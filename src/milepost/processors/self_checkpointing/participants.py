"""Asks self-checkpointing handlers how far their work is durable, all of them concurrently.

A `def` callback cannot be interrupted. So each runs in a thread of its own, and one that hangs is
left behind: it has failed, and is not called for that segment again until it returns. Then it is
told that the segment was lost. A pool thread asks, outside any transaction; claims are extended
elsewhere.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.errors import describe
from milepost.processors.self_checkpointing.reconcile import (
    LATEST,
    Report,
    Unreconciled,
    reconciled,
    within,
)
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.processors.self_checkpointing.api import Checkpointing, Trigger
    from milepost.records import Segment
    from milepost.runtime import EventLoop

CANCEL_SECONDS = 1.0
NONE_LIMIT = 10  # reports without an advance, in a row, before it is said
log = logging.getLogger("milepost.processors")


Callback: TypeAlias = "Callable[[Checkpointing], Any]"
Holds: TypeAlias = "Callable[[], bool]"


class ClaimOver(Exception):
    """The claim is lost, or its time is over by the clock of this process: nothing that may write
    is called for it any more."""


class NotDurable(Exception):
    """A participant failed, hung, or stayed behind: nothing is stored."""


@dataclass(slots=True)
class Participants:
    """The self-checkpointing handlers of one instance, for all its segments."""

    members: tuple[Checkpointing, ...]
    loop: EventLoop
    timeout_seconds: float
    _lock: Lock = field(default_factory=Lock, init=False)
    _busy: set[tuple[int, Segment]] = field(default_factory=set, init=False)
    _to_be_told: set[tuple[int, Segment]] = field(default_factory=set, init=False)
    _nones: dict[int, int] = field(default_factory=dict, init=False)  # in a row, by member
    # Only the one thread that serves a segment reads and changes its entry.
    _setbacks: dict[Segment, tuple[Position, int]] = field(default_factory=dict, init=False)

    def claimed(self, segment: Segment, trigger: Trigger) -> None:
        """One after the other; those after one that fails are not told."""
        for place in range(len(self.members)):
            self._answers([place], segment, lambda m: m.on_segment_claimed(segment, trigger))

    def covered(
        self,
        segment: Segment,
        requested: Position,
        consumed: Position,
        must_reach: Position | None = None,
        holds: Holds = lambda: True,
    ) -> Position | None:
        """The position up to which the work of all is durable, once they were asked for it."""

        def ask(who: Sequence[int], position: Position) -> list[Report]:
            reports = self._reports(
                who, segment, lambda m: m.on_checkpoint_advanced(segment, position), holds
            )
            for place, report in zip(who, reports, strict=True):
                self._count_none(place, report)
            return reports

        try:
            return reconciled(len(self.members), ask, requested, consumed, must_reach=must_reach)
        except Unreconciled as error:
            raise NotDurable(self._laggards(error)) from error

    def released(
        self, segment: Segment, up_to: Position, holds: Holds = lambda: True
    ) -> list[Position | None]:
        """What each reports at a release, for which it is asked once. One that answers too late
        has not released it."""
        who = range(len(self.members))
        try:
            reports = self._reports(
                who, segment, lambda m: m.on_segment_released(segment, up_to), holds
            )
        except NotDurable:
            self._tell_once_free(segment)
            raise
        return [within(report, up_to) for report in reports]

    def lost(self, segment: Segment) -> str | None:
        """Nothing depends on it; what has failed, if anything did."""
        busy = self._tell_once_free(segment)
        who = [place for place in range(len(self.members)) if place not in busy]
        outcomes = self._ask(who, segment, lambda m: m.on_segment_lost(segment))
        failures = [str(outcome) for outcome in outcomes if isinstance(outcome, NotDurable)]
        return f"on_segment_lost: {'; '.join(failures)}" if failures else None

    def _tell_once_free(self, segment: Segment) -> set[int]:
        """Those that are busy with this segment; they will be told that it was lost."""
        with self._lock:
            busy = {(place, of) for place, of in self._busy if of == segment}
            self._to_be_told |= busy
            return {place for place, _ in busy}

    def count_setback(self, segment: Segment, failed_at: Position) -> int:
        """One more failure; how many there are without a message further on being reached."""
        highest, count = self._setbacks.get(segment, (failed_at, 0))
        count = 1 if failed_at > highest else count + 1
        self._setbacks[segment] = (max(highest, failed_at), count)
        return count

    def _reports(
        self, who: Sequence[int], segment: Segment, call: Callback, holds: Holds
    ) -> list[Report]:
        """Of all that were asked. Looked at just before each call: nobody is asked to write once
        the claim is over."""

        def call_if_held(member: Checkpointing) -> Any:
            if not holds():
                raise ClaimOver
            return call(member)

        answers = self._answers(who, segment, call_if_held)
        return [self._checked(n, answer) for n, answer in zip(who, answers, strict=True)]

    def _answers(self, who: Sequence[int], segment: Segment, call: Callback) -> list[Any]:
        """Of all that were asked; if one has failed, all of those that have are named."""
        outcomes = self._ask(who, segment, call)
        for outcome in outcomes:
            if isinstance(outcome, ClaimOver):
                raise outcome
        failures = [str(outcome) for outcome in outcomes if isinstance(outcome, NotDurable)]
        if failures:
            raise NotDurable("; ".join(failures))
        return outcomes

    def _count_none(self, place: int, report: Report) -> None:
        """None is no failure, so nothing else would tell of a `return` that was forgotten."""
        with self._lock:
            count = self._nones.get(place, 0)
            if count >= NONE_LIMIT:
                return  # it was said
            self._nones[place] = count = count + 1 if report is None else 0
        if count == NONE_LIMIT:
            log.warning(
                "%s.on_checkpoint_advanced returned None %s times in a row: None is no advance, so "
                "the checkpoint stays where it is, and a restart delivers everything after it "
                "again. Return LATEST if all that was handled is durable, or the Position up to "
                "which it is.",
                _name(self.members[place]),
                NONE_LIMIT,
            )

    def _checked(self, place: int, report: Any) -> Report:
        if report is None or report is LATEST or isinstance(report, Position):
            return report
        raise NotDurable(
            f"{_name(self.members[place])} reported {report!r}, which is neither a Position nor "
            "LATEST nor None"
        )

    def _ask(self, who: Sequence[int], segment: Segment, call: Callback) -> list[Any]:
        """Their answers, or NotDurable or ClaimOver in the place of one."""
        deadline = time.monotonic() + self.timeout_seconds
        started = [(place, self._start(place, segment, call)) for place in who]
        return [self._answer(place, call, deadline) for place, call in started]

    def _start(self, place: int, segment: Segment, call: Callback) -> _Call | NotDurable:
        member, key = self.members[place], (place, segment)
        with self._lock:
            if key in self._busy:
                return NotDurable(f"{_name(member)} is still busy with an earlier call")
            self._busy.add(key)
        return _Call(lambda: call(member), self.loop, lambda: self._free(key))

    def _free(self, key: tuple[int, Segment]) -> None:
        """In the thread of the call that has ended."""
        with self._lock:
            if key not in self._to_be_told:
                self._busy.discard(key)
                return
            self._to_be_told.discard(key)
        place, segment = key
        member = self.members[place]
        log.warning("segment=%s %s answered too late", segment.id, _name(member))
        # Still busy meanwhile: no other call for this segment overtakes it.
        told = _Call(lambda: member.on_segment_lost(segment), self.loop, lambda: self._free(key))
        told.done.add_done_callback(lambda done: _log_failure(member, segment, done))

    def _answer(self, place: int, call: _Call | NotDurable, deadline: float) -> Any:
        if isinstance(call, NotDurable):
            return call
        name = _name(self.members[place])
        if not call.ends_before(deadline):
            return NotDurable(f"{name} did not answer within {self.timeout_seconds:g} s")
        error = call.done.exception()
        if isinstance(error, ClaimOver):
            return error
        if error is not None:
            log.warning("participant=%s failed", name, exc_info=error)
            return NotDurable(f"{name} failed: {describe(error)}")
        return call.done.result()

    def _laggards(self, error: Unreconciled) -> str:
        behind = (f"{_name(self.members[n])} (at {error.reports[n]})" for n in error.behind)
        return f"{', '.join(behind)} did not reach {error.target}"


class _Call:
    """One callback in a thread of its own, a daemon: one that hangs must not keep the process."""

    def __init__(
        self, call: Callable[[], Any], loop: EventLoop, on_end: Callable[[], None]
    ) -> None:
        self._call, self._loop, self._on_end = call, loop, on_end
        self._lock = Lock()
        self._is_given_up = False
        self._coroutine: Future[Any] | None = None
        self.done: Future[Any] = Future()
        Thread(target=self._run, name="participant", daemon=True).start()

    def ends_before(self, deadline: float) -> bool:
        """Whether it is done by then. Otherwise it is given up."""
        wait([self.done], timeout=max(0.0, deadline - time.monotonic()))
        if not self.done.done():
            self._give_up()
            return False
        return True

    def _run(self) -> None:
        # Free before it is known to have ended: the next call may follow immediately.
        try:
            answer = self._finished(self._call())
        except BaseException as error:  # noqa: BLE001 - raised to the thread that asked
            self._on_end()
            self.done.set_exception(error)
        else:
            self._on_end()
            self.done.set_result(answer)

    def _finished(self, result: Any) -> Any:
        if not inspect.isawaitable(result):
            return result
        with self._lock:
            if self._is_given_up:
                _discard(result)
                return None
            self._coroutine = self._started(result)
        return self._coroutine.result()

    def _started(self, result: Awaitable[Any]) -> Future[Any]:
        coroutine = _awaited(result)
        try:
            return self._loop.start(coroutine)
        except RuntimeError:  # the loop is closed: the run ended before this call did
            coroutine.close()
            _discard(result)
            raise

    def _give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            coroutine = self._coroutine
        if coroutine is not None:
            coroutine.cancel()
            wait([self.done], timeout=CANCEL_SECONDS)  # it ends now, unless it refuses to


def _log_failure(member: Checkpointing, segment: Segment, done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        name = _name(member)
        log.warning("segment=%s %s.on_segment_lost failed", segment.id, name, exc_info=error)


def _discard(result: Awaitable[Any]) -> None:
    if inspect.iscoroutine(result):
        result.close()


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _name(member: Checkpointing) -> str:
    return type(member).__name__
