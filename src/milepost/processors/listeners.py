"""Segment listeners: what else is told of claims, such as a cache beside an ordinary handler.

A listener answers nothing, and no checkpoint depends on it. It is called as a self-checkpointing
handler is: with a time limit, never while a message of the segment is handled.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from milepost.handlers import layers_of, name_of
from milepost.processors.self_checkpointing.api import Checkpointing, Trigger, end
from milepost.processors.self_checkpointing.participants import Participants
from milepost.processors.self_checkpointing.reconcile import LATEST, Report
from milepost.records import Segment

if TYPE_CHECKING:
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.records import Position
    from milepost.runtime import EventLoop

Listen: TypeAlias = Callable[[Segment], Any]
EVENTS = ("on_segment_claimed", "on_segment_released", "on_segment_lost")
_PREFIX = "on_segment_"


class SegmentListener:
    """Inherited by a handler object that is to be told which segments its instance has. Every
    method may be `def` or `async def`. For one segment they are called one after the other, and
    never while a message of that segment is handled; for different segments, concurrently."""

    def on_segment_claimed(self, segment: Segment) -> Awaitable[None] | None:
        """This instance has the segment now. Its first message comes after this returns. If it
        raises, the claim is given back and tried again later."""

    def on_segment_released(self, segment: Segment) -> Awaitable[None] | None:
        """Its last message was handled, and its checkpoint is stored. The claim is given back
        after this returns, or raises."""

    def on_segment_lost(self, segment: Segment) -> Awaitable[None] | None:
        """Instead of a release: the claim was lost, or something failed, also
        `on_segment_claimed` itself. Somebody else may have the segment already: write nothing."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An object, or one function of a processor."""

    owner: Any
    events: dict[str, Listen]

    @property
    def name(self) -> str:
        return name_of(self.owner)

    def is_same(self, other: Listener) -> bool:
        """A function may listen to several events."""
        return self.owner is other.owner and self.events.keys() == other.events.keys()

    def tell(self, event: str, segment: Segment) -> Awaitable[None] | None:
        """What there is to wait for, if the function is async."""
        call = self.events.get(event)
        result = None if call is None else call(segment)
        return result if inspect.isawaitable(result) else None


def listener_of(handler: Any) -> Listener | None:
    """The object behind a handler, if it listens."""
    owner = next((each for each in layers_of(handler) if isinstance(each, SegmentListener)), None)
    if owner is None:
        return None
    found = {name for name in dir(type(owner)) if name.startswith(_PREFIX)}
    if unknown := sorted(found.difference(EVENTS)):
        raise TypeError(
            f"{type(owner).__name__} has {', '.join(unknown)}, which would never be called. The "
            f"callbacks of a SegmentListener are {', '.join(EVENTS)}."
        )
    return Listener(owner, {each: _checked(each, getattr(owner, each)) for each in EVENTS})


def listening(event: str, function: Any) -> Listener:
    return Listener(function, {event: _checked(event, function)})


def refuse_unclaimed(options: ProcessorOptions) -> None:
    """A listener that would never be told."""
    name = options.name
    if options.engine == "spark":
        raise ValueError(
            f"Processor {name!r}: engine='spark' claims nothing, so a segment listener would never "
            "be told. Remove the listener, or engine='spark'."
        )
    if options.segments is None:
        raise ValueError(
            f"Processor {name!r} has no segments, so a segment listener would never be told. Set "
            "segments=N (segments=1 is enough)."
        )


def _checked(event: str, function: Any) -> Listen:
    try:
        inspect.signature(function).bind(Segment.WHOLE)
    except TypeError as error:
        raise TypeError(
            f"{name_of(function)} cannot be called as {event}(segment): {error}"
        ) from error
    except ValueError:
        pass  # written in C: nobody knows its parameters
    return function  # type: ignore[no-any-return]


class _Told(Checkpointing):
    """A listener in the place of a participant: it is called like one, and never asked for a
    checkpoint."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> Awaitable[None] | None:  # noqa: ARG002
        return self._listener.tell("on_segment_claimed", segment)

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:  # noqa: ARG002
        return LATEST

    def on_segment_released(
        self,
        segment: Segment,
        up_to: Position,  # noqa: ARG002
    ) -> Awaitable[Report] | Report:
        told = self._listener.tell("on_segment_released", segment)
        return LATEST if told is None else _latest_after(told)

    def on_segment_lost(self, segment: Segment) -> Awaitable[None] | None:
        return self._listener.tell("on_segment_lost", segment)


async def _latest_after(told: Awaitable[None]) -> Report:
    await told
    return LATEST


@dataclass(slots=True)
class Listeners:
    """All listeners of one instance, for one claim."""

    participants: Participants
    is_told: bool = False  # of the claim

    def claimed(self, segment: Segment) -> None:
        trigger = Trigger(segment, lambda: None)
        end(trigger)
        self.is_told = True  # also if it fails: some may have heard of it
        self.participants.claimed(segment, trigger)

    def released(self, segment: Segment, up_to: Position) -> None:
        self.is_told = False
        self.participants.released(segment, up_to)

    def lost(self, segment: Segment) -> str | None:
        """What failed, if anything did."""
        if not self.is_told:
            return None
        self.is_told = False
        return self.participants.lost(segment)


def listeners_of(definition: Definition, loop: EventLoop | None) -> Callable[[], Listeners | None]:
    """What makes the listeners of a claim; None if nobody listens."""
    if not definition.listeners or loop is None:
        return lambda: None
    # Errors name the class of a participant: so it is called what the listener is called.
    members = tuple(type(each.name, (_Told,), {})(each) for each in definition.listeners)
    participants = Participants(members, loop, definition.options.durability_timeout)
    return lambda: Listeners(participants)
