"""Handlers that know themselves when their work is durable.

A handler that writes elsewhere, later, or keeps a model in memory has not finished when it
returns. It inherits `Checkpointing`, and the checkpoint of a segment moves only to where it says
that its work is durable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from milepost.processors.self_checkpointing.reconcile import LATEST, Report, Request, merged
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.records import Segment

__all__ = ["CALLBACKS", "LATEST", "Checkpointing", "Mode", "Report", "Request", "Trigger"]

Mode: TypeAlias = Literal["deferred", "auto"]
_START = Position.BEGINNING
# The callbacks of `Checkpointing`, and what they are called with, by position.
CALLBACKS: Final = {
    "on_segment_claimed": ("segment", "trigger"),
    "on_checkpoint_advanced": ("segment", "requested"),
    "on_segment_released": ("segment", "up_to"),
    "on_segment_lost": ("segment",),
}


class Trigger:
    """Asks for one segment's checkpoint to move. There is one for every claim of a segment; when
    the claim ends, by a release, a loss or a reset, it asks for nothing any more."""

    __slots__ = (
        "_epoch",
        "_highest",
        "_holds",
        "_is_active",
        "_lock",
        "_pending",
        "_segment",
        "_start",
        "_wake",
    )

    def __init__(
        self,
        segment: Segment,
        wake: Callable[[], None],
        epoch: int = 0,
        start: Position = _START,
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        self._segment, self._wake, self._holds = segment, wake, holds
        self._epoch, self._start = epoch, start
        self._lock = Lock()  # held for a comparison, never while anything waits
        self._pending: Request | None = None
        self._highest: Position | None = None  # that was asked for and is not consumed yet
        self._is_active = True

    @property
    def segment(self) -> Segment:
        return self._segment

    @property
    def epoch(self) -> int:
        """Of the claim. It grows with every claim of the segment: written beside what is kept
        elsewhere, it tells a former owner's write from the present one's."""
        return self._epoch

    @property
    def start(self) -> Position:
        """The stored position at the claim: the messages after it will be given to the handlers,
        also those that are durable already."""
        return self._start

    @property
    def is_active(self) -> bool:
        """Whether the claim that it belongs to still holds, as far as is known: it is not lost, and
        by the clock of this process its time is not over."""
        return self._is_active and self._holds()

    def request(self, position: Request = LATEST) -> None:
        """Ask for the checkpoint to move up to a position, or to all that was consumed. From any
        thread, and without waiting. Requests that come together are one, for the highest. One for
        a position that is not consumed yet is kept until it is."""
        if position is not LATEST and not isinstance(position, Position):
            raise TypeError(f"A trigger takes a Position or LATEST, not {position!r}.")
        if not self.is_active:
            return
        with self._lock:
            if not self._is_active:
                return
            self._pending = merged(self._pending, position)
            if position is not LATEST:
                self._highest = max(self._highest or position, position)
        self._wake()

    def __repr__(self) -> str:
        state = "active" if self.is_active else "inert"
        return f"<Trigger of segment {self._segment.id}, {state}>"


def taken(trigger: Trigger, consumed: Position = _START) -> Request | None:
    """What was asked for since it was last looked at, and what was asked for before it was
    consumed; the runtime's side of a trigger."""
    with trigger._lock:
        pending, trigger._pending = trigger._pending, None
        if (highest := trigger._highest) is None or highest > consumed:
            return pending
        trigger._highest = None
        return merged(pending, highest)


def end(trigger: Trigger) -> None:
    """The claim is over: further requests have no effect."""
    with trigger._lock:
        trigger._is_active, trigger._pending, trigger._highest = False, None, None


class Checkpointing(ABC):
    """Inherited by a handler object that decides when its work is durable. Every method may be
    `def` or `async def`. For one segment they are called one after the other, and never while a
    message of that segment is handled; for different segments, concurrently."""

    def on_segment_claimed(  # noqa: B027 - nothing to do is what most want
        self, segment: Segment, trigger: Trigger
    ) -> Awaitable[None] | None:
        """This instance has the segment now and will be given its messages from the stored
        position on. Keep the trigger by segment, never in one place for all."""

    @abstractmethod
    def on_checkpoint_advanced(
        self, segment: Segment, requested: Position
    ) -> Awaitable[Report] | Report:
        """Make durable what was handled of the segment, at least up to `requested`, and report
        how far it is durable: a position, LATEST for all that was given to the handlers, or None
        for no advance."""

    def on_segment_released(self, segment: Segment, up_to: Position) -> Awaitable[Report] | Report:
        """The last chance to make work durable before somebody else has the segment. The lowest
        report of all participants is stored; what lies above it is delivered again."""
        return self.on_checkpoint_advanced(segment, up_to)

    def on_segment_lost(  # noqa: B027
        self, segment: Segment
    ) -> Awaitable[None] | None:
        """The claim ended without a release: it was lost, or something failed. Somebody else may
        have the segment already, so forget what is not durable, and write nothing."""
