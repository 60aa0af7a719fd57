"""What a processor is: its name, what it reads, and how its handler wants to be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from milepost.checkpoints import CheckpointKey
from milepost.handlers import Handler, is_async
from milepost.log import Selection, Start
from milepost.processors.checkpointing import Checkpointing, Mode
from milepost.processors.handling import Delivery, Handling, handling, refuse_two_colours
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.records import Position

Handle: TypeAlias = Literal["batch", "message"]
# Empties what the processor fills; called with the transaction of the reset and the position
# after which messages will be delivered again.
ResetHandler: TypeAlias = "Callable[[Connection, Position], Any]"
OnConflict: TypeAlias = Literal["standby", "stop"]
OnFailure: TypeAlias = Literal["stop", "skip", "park"]
Engine: TypeAlias = Literal["process", "spark"]

MAX_SEGMENTS = 4096
MIN_CLAIM_SECONDS = 0.5
_CHOICES = {
    "handle": ("batch", "message"),
    "delivery": ("exactly_once", "at_least_once"),
    "on_conflict": ("standby", "stop"),
    "on_failure": ("stop", "skip", "park"),
    "engine": ("process", "spark"),
}


class Options(TypedDict, total=False):
    """What `@mp.processor(name, ...)` takes; the defaults are in ProcessorOptions."""

    topics: Sequence[str] | None
    types: Sequence[str] | None
    version: int
    batch_size: int
    start_from: Start
    handle: Handle
    delivery: Delivery
    concurrency: int | None
    on_conflict: OnConflict
    on_failure: OnFailure
    retry: Retry
    inbox: bool
    inbox_seconds: float
    checkpoint_every: int
    checkpoint_seconds: float
    max_pending: int
    poll_seconds: float
    segments: int | None
    claim_seconds: float
    durability_timeout: float
    max_parked: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class ProcessorOptions:
    """Everything about a processor but its handler; checked when it is made."""

    name: str
    topics: Sequence[str] | None = None
    types: Sequence[str] | None = None
    version: int = 1
    batch_size: int = 500
    start_from: Start = "beginning"
    handle: Handle = "batch"
    delivery: Delivery = "exactly_once"
    concurrency: int | None = None
    on_conflict: OnConflict = "standby"
    on_failure: OnFailure = "stop"
    retry: Retry = field(default_factory=Retry)
    inbox: bool = False
    inbox_seconds: float = 86_400.0
    checkpoint_every: int = 100
    checkpoint_seconds: float = 5.0
    max_pending: int = 10_000
    poll_seconds: float = 1.0
    segments: int | None = None
    claim_seconds: float = 10.0
    durability_timeout: float = 30.0
    max_parked: int = 1000
    engine: Engine = "process"

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= 255:
            raise ValueError("A processor's name takes 1 to 255 characters.")
        for option, choices in _CHOICES.items():
            value = getattr(self, option)
            if value not in choices:
                raise ValueError(f"{option} is {value!r}: expected one of {choices}.")
        if self.version < 1 or self.batch_size < 1 or self.at_once < 1:
            raise ValueError("version, batch_size and concurrency are at least 1.")
        Selection(self.topics, self.types)  # refuses what it cannot mean
        self._check_pace()
        self._check_delivery()
        self._check_segments()
        self._check_engine()

    def _check_pace(self) -> None:
        if self.checkpoint_every < 0 or self.checkpoint_seconds < 0 or self.inbox_seconds < 0:
            raise ValueError(
                "checkpoint_every, checkpoint_seconds and inbox_seconds must not be negative."
            )
        if self.max_pending < 1:
            raise ValueError(f"max_pending is {self.max_pending}: expected at least 1.")
        if self.max_parked < 1:
            raise ValueError(f"max_parked is {self.max_parked}: expected at least 1.")
        if self.poll_seconds <= 0:
            raise ValueError(f"poll_seconds is {self.poll_seconds}: expected more than 0.")
        if self.durability_timeout <= 0:
            raise ValueError(
                f"durability_timeout is {self.durability_timeout}: expected more than 0."
            )

    def _check_delivery(self) -> None:
        is_loose = self.delivery == "at_least_once" and self.handle == "message"
        if self.at_once > 1 and not is_loose and self.segments is None:
            raise ValueError(
                f"Processor {self.name!r}: handlers that run at once finish in any order, so their "
                "effects cannot share one transaction with the checkpoint. Take segments=N, or "
                "concurrency=1, or handle='message' with delivery='at_least_once'."
            )
        if self.inbox and self.delivery != "at_least_once":
            raise ValueError(
                f"Processor {self.name!r}: an inbox is for delivery='at_least_once'; exactly once "
                "needs none."
            )
        if self.on_failure == "park" and self.at_once > 1 and self.segments is None:
            raise ValueError(
                f"Processor {self.name!r}: on_failure='park' sets messages aside in the order of "
                "their checkpoint, which handlers that run at once have not. Take segments=N "
                "instead of concurrency."
            )

    def _check_segments(self) -> None:
        if self.segments is not None and not 1 <= self.segments <= MAX_SEGMENTS:
            raise ValueError(f"segments is {self.segments}: expected 1 to {MAX_SEGMENTS}.")
        if self.claim_seconds < MIN_CLAIM_SECONDS:
            raise ValueError(
                f"claim_seconds is {self.claim_seconds}: expected at least {MIN_CLAIM_SECONDS}."
            )
        if self.segments is not None and self.inbox:
            raise ValueError(
                f"Processor {self.name!r}: an inbox is kept by one instance, segments are shared "
                "by many. Take segments with delivery='exactly_once', or an inbox without them."
            )
        if self.segments is not None and self.on_conflict == "stop":
            raise ValueError(
                f"Processor {self.name!r}: instances share its segments and do not compete. "
                "Leave on_conflict at 'standby'."
            )

    def _check_engine(self) -> None:
        if self.engine == "process":
            return
        if self.segments is None or self.delivery != "exactly_once":
            raise ValueError(
                f"Processor {self.name!r}: engine='spark' runs exactly-once handlers, one task for "
                "each segment. Give segments=N, and leave delivery at 'exactly_once'."
            )
        if self.concurrency is not None:
            raise ValueError(
                f"Processor {self.name!r}: on Spark as many segments are handled at once as it has "
                "cores. Leave concurrency out."
            )

    @property
    def at_once(self) -> int:
        """How many handlers of an unsegmented processor run at once."""
        return 1 if self.concurrency is None else self.concurrency

    @property
    def key(self) -> CheckpointKey:
        return CheckpointKey(self.name, self.version)

    @property
    def selection(self) -> Selection:
        return Selection(self.topics, self.types)


@dataclass(frozen=True, slots=True)
class Definition:
    """A processor's options and its handlers, in the order in which they are called."""

    options: ProcessorOptions
    handlers: tuple[Handling, ...] = ()
    reset_handlers: tuple[ResetHandler, ...] = ()

    @classmethod
    def of(
        cls, options: ProcessorOptions, handler: Handler, *, skip_on_replay: bool = False
    ) -> Definition:
        return cls(options).with_handler(handler, skip_on_replay=skip_on_replay)

    def with_handler(self, handler: Handler, *, skip_on_replay: bool = False) -> Definition:
        """One handler more. An instance that runs goes on with those it was started with."""
        name, delivery = self.options.name, self.options.delivery
        added = handling(name, delivery, handler, skip_on_replay=skip_on_replay)
        handlers = (*self.handlers, added)
        if delivery == "exactly_once":
            refuse_two_colours(name, handlers)
        return replace(self, handlers=handlers)

    def with_reset_handler(self, handler: ResetHandler) -> Definition:
        if is_async(handler):
            raise TypeError(
                f"Processor {self.options.name!r}: a reset handler is a plain function, "
                "`def empty(tx, to)`: whoever resets has a synchronous transaction."
            )
        return replace(self, reset_handlers=(*self.reset_handlers, handler))

    @property
    def handler(self) -> Handler:
        """The first one, which was decorated."""
        return self.handlers[0].handler

    @property
    def ordinary(self) -> tuple[Handling, ...]:
        """Those whose work is done when they return."""
        return tuple(each for each in self.handlers if each.participant is None)

    @property
    def self_checkpointing(self) -> tuple[Handling, ...]:
        return tuple(each for each in self.handlers if each.participant is not None)

    @property
    def participants(self) -> tuple[Checkpointing, ...]:
        """Each once, also where several of its methods are handlers."""
        found = {id(p): p for each in self.handlers if (p := each.participant) is not None}
        return tuple(found.values())

    @property
    def mode(self) -> Mode | None:
        """When the checkpoint moves; None where there is no self-checkpointing handler."""
        if not self.participants:
            return None
        return "auto" if self.ordinary else "deferred"

    @property
    def segments(self) -> int | None:
        """How many segments it begins with: one at least where handlers checkpoint themselves,
        because what they are told of is a segment's claim and its release."""
        return self.options.segments or (1 if self.participants else None)

    @property
    def is_async(self) -> bool:
        """Whether what it calls needs an event loop."""
        return any(each.is_async for each in self.handlers) or bool(self.participants)

    @property
    def is_tx_async(self) -> bool:
        """Of which colour the connection is that the ordinary handlers share."""
        return any(each.is_async for each in self.ordinary)
