"""Asks self-checkpointing handlers how far their work is durable, all of them concurrently.

A `def` callback cannot be interrupted. So each runs in a thread of its own, and one that hangs is
left behind: it has failed this checkpoint, and is not called for that segment again until it
returns. A pool thread asks, outside any transaction; claims are extended elsewhere.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

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
    _nones: dict[int, int] = field(default_factory=dict, init=False)  # in a row, by member
    # Only the one thread that serves a segment reads and changes its entry.
    _setbacks: dict[Segment, tuple[Position, int]] = field(default_factory=dict, init=False)

    def claimed(self, segment: Segment, trigger: Trigger) -> None:
        """In this thread and without a limit: loading a large state takes its time."""
        for place, member in enumerate(self.members):
            if (place, segment) in self._busy:
                raise NotDurable(f"{_name(member)} is still busy with its last claim")
            result = member.on_segment_claimed(segment, trigger)
            if inspect.isawaitable(result):
                self.loop.run(_awaited(result))

    def covered(
        self,
        segment: Segment,
        requested: Position,
        consumed: Position,
        must_reach: Position | None = None,
    ) -> Position | None:
        """The position up to which the work of all is durable, once they were asked for it."""

        def ask(who: Sequence[int], position: Position) -> list[Report]:
            reports = self._reports(
                who, segment, lambda m: m.on_checkpoint_advanced(segment, position)
            )
            for place, report in zip(who, reports, strict=True):
                self._count_none(place, report)
            return reports

        try:
            return reconciled(len(self.members), ask, requested, consumed, must_reach=must_reach)
        except Unreconciled as error:
            raise NotDurable(self._laggards(error)) from error

    def released(self, segment: Segment, up_to: Position) -> list[Position | None]:
        """What each reports at a release, for which it is asked once."""
        who = range(len(self.members))
        reports = self._reports(who, segment, lambda m: m.on_segment_released(segment, up_to))
        return [within(report, up_to) for report in reports]

    def lost(self, segment: Segment) -> None:
        """Nothing depends on it, so what fails is said and no more. One that hangs in an earlier
        call is not told; its trigger is inert."""
        with self._lock:
            busy = {place for place, of in self._busy if of == segment}
        who = [place for place in range(len(self.members)) if place not in busy]
        for outcome in self._ask(who, segment, lambda m: m.on_segment_lost(segment)):
            if isinstance(outcome, NotDurable):
                log.warning("segment=%s on_segment_lost: %s", segment.id, outcome)

    def count_setback(self, segment: Segment, failed_at: Position) -> int:
        """One more failure; how many there are without a message further on being reached."""
        highest, count = self._setbacks.get(segment, (failed_at, 0))
        count = 1 if failed_at > highest else count + 1
        self._setbacks[segment] = (max(highest, failed_at), count)
        return count

    def _reports(
        self, who: Sequence[int], segment: Segment, call: Callable[[Checkpointing], Any]
    ) -> list[Report]:
        """Of all that were asked; if one has failed, all of those that have are named."""
        outcomes = self._ask(who, segment, call)
        failures = [str(outcome) for outcome in outcomes if isinstance(outcome, NotDurable)]
        if failures:
            raise NotDurable("; ".join(failures))
        return [self._checked(n, outcome) for n, outcome in zip(who, outcomes, strict=True)]

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

    def _ask(
        self, who: Sequence[int], segment: Segment, call: Callable[[Checkpointing], Any]
    ) -> list[Any]:
        """Their answers, or NotDurable in the place of one."""
        deadline = time.monotonic() + self.timeout_seconds
        started = [(place, self._start(place, segment, call)) for place in who]
        return [self._answer(place, call, deadline) for place, call in started]

    def _start(
        self, place: int, segment: Segment, call: Callable[[Checkpointing], Any]
    ) -> _Call | NotDurable:
        member, key = self.members[place], (place, segment)
        with self._lock:
            if key in self._busy:
                return NotDurable(f"{_name(member)} is still busy with an earlier call")
            self._busy.add(key)
        return _Call(lambda: call(member), self.loop, lambda: self._free(key))

    def _free(self, key: tuple[int, Segment]) -> None:
        with self._lock:
            self._busy.discard(key)

    def _answer(self, place: int, call: _Call | NotDurable, deadline: float) -> Any:
        if isinstance(call, NotDurable):
            return call
        name = _name(self.members[place])
        if not call.ends_before(deadline):
            return NotDurable(f"{name} did not answer within {self.timeout_seconds:g} s")
        if (error := call.done.exception()) is not None:
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
                if inspect.iscoroutine(result):
                    result.close()
                return None
            self._coroutine = self._loop.start(_awaited(result))
        return self._coroutine.result()

    def _give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            coroutine = self._coroutine
        if coroutine is not None:
            coroutine.cancel()
            wait([self.done], timeout=CANCEL_SECONDS)  # it ends now, unless it refuses to


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _name(member: Checkpointing) -> str:
    return type(member).__name__
