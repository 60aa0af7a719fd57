"""What a processor is: its name, what it reads, and how its handler wants to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from milepost.binding import binding_of
from milepost.checkpoints import CheckpointKey
from milepost.feeds import check_feeds
from milepost.handlers import Handler, is_async
from milepost.log import Selection, Start
from milepost.processors.by_type import handlers_of, routes
from milepost.processors.handler_call import Delivery, Handling, handling, refuse_two_colours
from milepost.processors.listeners import Listener, listener_of, refuse_unclaimed
from milepost.processors.self_checkpointing.api import Checkpointing, Mode
from milepost.retry import Retry

if TYPE_CHECKING:
    from milepost.binding import Binding
    from milepost.db import Connection
    from milepost.records import Position

Handle: TypeAlias = Literal["batch", "message"]
# Empties what the processor fills; called with the transaction of the reset (a Connection, or what
# `session=` makes of it) and the position after which messages will be delivered again.
ResetHandler: TypeAlias = "Callable[[Any, Position], Any]"
OnFailure: TypeAlias = Literal["stop", "skip", "park"]
Engine: TypeAlias = Literal["process", "spark"]

MAX_SEGMENTS = 4096
MIN_CLAIM_SECONDS = 0.5
# The least value of each number, and the numbers that must be positive.
_LEAST = {
    "version": 1,
    "batch_size": 1,
    "concurrency": 1,
    "max_pending": 1,
    "max_parked": 1,
    "checkpoint_every": 0,
    "checkpoint_seconds": 0,
    "claim_seconds": MIN_CLAIM_SECONDS,
}
_POSITIVE = ("poll_seconds", "durability_timeout")
_CHOICES = {
    "handle": ("batch", "message"),
    "delivery": ("exactly_once", "at_least_once"),
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
    on_failure: OnFailure
    retry: Retry
    checkpoint_every: int
    checkpoint_seconds: float
    max_pending: int
    poll_seconds: float
    segments: int | None
    claim_seconds: float
    durability_timeout: float
    max_parked: int
    engine: Engine
    feeds: Sequence[str]
    session: Any


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
    on_failure: OnFailure = "stop"
    retry: Retry = field(default_factory=Retry)
    checkpoint_every: int = 100
    checkpoint_seconds: float = 5.0
    max_pending: int = 10_000
    poll_seconds: float = 1.0
    segments: int | None = None
    claim_seconds: float = 10.0
    durability_timeout: float = 30.0
    max_parked: int = 1000
    engine: Engine = "process"
    feeds: Sequence[str] = ()  # what handlers append and put; for the graph
    session: Any = None  # makes what handlers are given instead of the connection; then a Binding

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                f"A processor needs a name, not {self.name!r}: @mp.processor('billing')."
            )
        if not 0 < len(self.name) <= 255:
            raise ValueError("A processor's name takes 1 to 255 characters.")
        for option, choices in _CHOICES.items():
            value = getattr(self, option)
            if value not in choices:
                raise ValueError(f"{option} is {value!r}: expected one of {choices}.")
        if not isinstance(self.retry, Retry):
            raise TypeError(f"retry is {self.retry!r}: expected a Retry, as in Retry(limit=3).")
        if self.session is not None:
            object.__setattr__(self, "session", binding_of(self.session))
        self._check_numbers()
        Selection(self.topics, self.types)  # refuses what it cannot mean
        check_feeds(self.feeds)
        for reason in self._contradictions():
            raise ValueError(f"Processor {self.name!r}: {reason}")

    def _check_numbers(self) -> None:
        for option in (*_LEAST, *_POSITIVE, "segments"):
            value = getattr(self, option)
            if value is not None and not isinstance(value, int | float):
                raise TypeError(f"{option} is {value!r}: expected a number.")
        for option, least in _LEAST.items():
            value = getattr(self, option)
            if value is not None and value < least:
                raise ValueError(f"{option} is {value}: expected at least {least}.")
        for option in _POSITIVE:
            if (value := getattr(self, option)) <= 0:
                raise ValueError(f"{option} is {value}: expected more than 0.")
        if self.segments is not None and not 1 <= self.segments <= MAX_SEGMENTS:
            raise ValueError(f"segments is {self.segments}: expected 1 to {MAX_SEGMENTS}.")

    def _contradictions(self) -> Iterator[str]:
        """Options that do not go together, and what to do."""
        has_segments, is_exactly_once = self.segments is not None, self.delivery == "exactly_once"
        is_concurrent = self.max_running > 1 and not has_segments
        if is_concurrent and (is_exactly_once or self.handle == "batch"):
            yield (
                "handlers that run concurrently finish in any order, so their effects cannot share "
                "one transaction with the checkpoint. Use segments=N, or concurrency=1, or "
                "handle='message' with delivery='at_least_once'."
            )
        if self.on_failure == "park" and is_concurrent:
            yield (
                "on_failure='park' sets messages aside in the order of their checkpoint, and "
                "handlers that run concurrently have no such order. Use segments=N instead of "
                "concurrency."
            )
        if self.engine == "spark" and not (has_segments and is_exactly_once):
            yield (
                "engine='spark' runs exactly-once handlers, one task for each segment. Set "
                "segments=N, and leave delivery at 'exactly_once'."
            )
        if self.session is not None and not is_exactly_once:
            yield (
                "session= is for the transaction of exactly-once handlers, and with "
                "delivery='at_least_once' there is none. Leave delivery at 'exactly_once', or let "
                "the handler open a Session of its own."
            )
        if self.session is not None and self.engine == "spark":
            yield (
                "session= is for handlers that run in this process. Leave engine at 'process', or "
                "use the psycopg connection that handlers on Spark are given as tx."
            )
        if self.engine == "spark" and self.concurrency is not None:
            yield (
                "Spark handles as many segments concurrently as it has cores. Do not set "
                "concurrency."
            )

    @property
    def max_running(self) -> int:
        """How many handlers of an unsegmented processor run concurrently."""
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

    options: ProcessorOptions  # `types`: those that are read
    handlers: tuple[Handling, ...] = ()
    reset_handlers: tuple[ResetHandler, ...] = ()
    declared: ProcessorOptions | None = None  # as they were given, once there are handlers
    listeners: tuple[Listener, ...] = ()
    is_delivery_given: bool = True  # by the user; otherwise it is the default

    @classmethod
    def of(
        cls, options: ProcessorOptions, handler: Any, *, skip_on_replay: bool = False
    ) -> Definition:
        return cls(options).with_handler(handler, skip_on_replay=skip_on_replay)

    def with_handler(
        self,
        handler: Any,
        *,
        skip_on_replay: bool = False,
        types: Sequence[str] | None = None,
    ) -> Definition:
        """One handler more, or all marked methods of an object. An instance that runs goes on with
        those it was started with."""
        name, delivery = self.options.name, self.options.delivery
        added = (
            replace(
                handling(
                    name,
                    delivery,
                    each,
                    skip_on_replay=skip_on_replay,
                    binding=self.options.session,
                ),
                types=handled,
            )
            for each, handled in routes(handler, types)
        )
        handlers = (*self.handlers, *added)
        if delivery == "exactly_once":
            refuse_two_colours(name, handlers)
        declared = self.declared or self.options
        options = replace(declared, types=_types_read(declared, handlers))
        added_to = replace(self, options=options, handlers=handlers, declared=declared)
        added_to.refuse_default_delivery()
        return added_to.with_listener(listener_of(handler))

    def refuse_default_delivery(self) -> None:
        """Of a handler that checkpoints itself, if it is the first one: the default does not fit
        it, and with another handler added it would."""
        if self.mode == "deferred" and not self.is_delivery_given:
            raise ValueError(
                f"Processor {self.options.name!r}: {type(self.participants[0]).__name__} "
                "checkpoints itself, so there is no transaction in which effects and checkpoint "
                "could commit together. Set delivery='at_least_once'; or "
                "delivery='exactly_once', if an ordinary handler is added to it."
            )

    def with_listener(self, listener: Listener | None) -> Definition:
        """An object listens once, also where several of its methods are handlers."""
        if listener is None or any(each.is_same(listener) for each in self.listeners):
            return self
        refuse_unclaimed(self.options)
        return replace(self, listeners=(*self.listeners, listener))

    def with_reset_handler(self, handler: ResetHandler) -> Definition:
        if is_async(handler):
            raise TypeError(
                f"Processor {self.options.name!r}: a reset handler is a plain function, "
                "`def empty(tx, to)`: a reset runs in a synchronous transaction."
            )
        if (binding := self.options.session) is not None:
            handler = partial(_reset_bound, binding, handler)
        return replace(self, reset_handlers=(*self.reset_handlers, handler))

    @property
    def handler(self) -> Handler:
        """The first one, which was decorated."""
        return self.handlers[0].handler

    def handles(self, type_: str) -> bool:
        """Whether an ordinary handler is called with messages of a type."""
        return bool(handlers_of(self.ordinary, type_))

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
        needs = self.participants or self.listeners  # called on one if they are async
        return any(each.is_async for each in self.handlers) or bool(needs)

    @property
    def is_tx_async(self) -> bool:
        """Of which colour the connection is that the ordinary handlers share."""
        return any(each.is_async for each in self.ordinary)


def _reset_bound(
    binding: Binding, handler: Callable[..., Any], tx: Connection, to: Position
) -> Any:
    """A reset handler is given what the handlers are given."""
    with binding.bound(tx) as session:
        return handler(session, to)


def _types_read(declared: ProcessorOptions, handlers: Sequence[Handling]) -> Sequence[str] | None:
    """If all handlers are by type, nothing else is read."""
    by_type = [each.types for each in handlers if each.types is not None]
    handled = frozenset[str]().union(*by_type)
    if declared.types is not None and (missing := handled.difference(declared.types)):
        raise ValueError(
            f"Processor {declared.name!r}: it reads types={list(declared.types)}, so a handler of "
            f"{', '.join(map(repr, sorted(missing)))} would never be called. Add the type to "
            "types, or leave types out: the types that handlers name are what is read."
        )
    return sorted(handled) if len(by_type) == len(handlers) else declared.types
