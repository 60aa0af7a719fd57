"""A processor as its author holds it: callable as its handler, runnable, waitable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import db
from milepost.errors import HandlerFailed
from milepost.handlers import name_of
from milepost.processors.by_type import is_handler, type_names
from milepost.processors.listeners import Listen, listening
from milepost.processors.progress import Follower, has_seen, lowest
from milepost.processors.replay.reset import reset
from milepost.processors.runner import Runner
from milepost.records import Position
from milepost.runtime import Runtime

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.log import Start
    from milepost.processors.definition import Definition, ResetHandler
    from milepost.runtime import Until
    from milepost.sql import Activity

H = TypeVar("H")  # callable, or an object with methods that are marked by `milepost.on`
R = TypeVar("R", bound="ResetHandler")
L = TypeVar("L", bound="Listen")


@dataclass(slots=True, eq=False)
class Processor(Follower):
    """Made by `mp.processor(...)`, and decorates its first handler. From then on, calling it calls
    that handler, as in a unit test."""

    kind = "processor"

    definition: Definition  # a new one with every handler that is added
    runtime: Runtime
    on_first: Callable[[Processor], None] = lambda _: None  # told before it has its first handler
    _skip_on_replay: bool = field(default=False, kw_only=True)  # of the handler it decorates

    @property
    def name(self) -> str:
        """As it was registered."""
        return self.definition.options.name

    def __call__(self, *arguments: Any) -> Any:
        handlers = self.definition.handlers
        if len(arguments) == 1 and (not handlers or is_handler(arguments[0])):
            if handlers:
                raise ValueError(f"There is a processor {self.name!r} already.")
            self.add(arguments[0], skip_on_replay=self._skip_on_replay)
            return self
        if not handlers or handlers[0].types is not None:
            names = ", ".join(name_of(each.handler) for each in handlers) or "none yet"
            raise TypeError(
                f"Processor {self.name!r} has handlers by type ({names}): call one of them."
            )
        return self.definition.handler(*arguments)

    def add(
        self,
        handler: Any,
        *,
        skip_on_replay: bool = False,
        types: Sequence[str] | None = None,
    ) -> None:
        """Add a handler, as `@processor.handler` and `@processor.on(...)` do."""
        added = self.definition.with_handler(handler, skip_on_replay=skip_on_replay, types=types)
        if not self.definition.handlers:
            self.on_first(self)
        self.definition = added

    def on(self, *types: str, skip_on_replay: bool = False) -> Callable[[H], H]:
        """Adds a handler of some types: `@billing.on("OrderPlaced")`. All handlers by type are
        called in the order of the log; a message whose type nobody handles passes."""
        names = sorted(type_names(types))

        def add(handler: H) -> H:
            self.add(handler, skip_on_replay=skip_on_replay, types=names)
            return handler

        return add

    @property
    def handler(self) -> HandlerRegistration:
        """Adds a handler, called after those that are there: `@bill.handler`, or
        `@bill.handler.skip_on_replay` for one that never sees a replayed message."""
        return HandlerRegistration(self)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run one instance in this thread, until `stop` is set or it has caught up."""
        try:
            self.runner(stop or Event()).run(until)
        except HandlerFailed as error:
            raise error.with_traceback(None)  # noqa: B904 - its cause is the handler's

    @property
    def activity(self) -> Activity:
        """What its role is granted: `milepost grant ROLE --to process`."""
        return "process"

    @property
    def own_connections(self) -> int:
        """Besides those for batches: to keep its turn, or its claims."""
        is_at_least_once = self.definition.options.delivery == "at_least_once"
        return int(self.definition.segments is not None or is_at_least_once)

    def runner(self, stop: Event) -> Runner:
        """What `mp.run()` runs in a thread, until the event is set."""
        return Runner(self.definition, self.runtime, stop)

    def on_reset(self, handler: R) -> R:
        """Adds a reset handler, `handler(tx, to)`: called in the transaction of every reset, to
        empty what the processor fills."""
        self.definition = self.definition.with_reset_handler(handler)
        return handler

    def on_segment_claimed(self, listener: L) -> L:
        """Adds a segment listener, `listener(segment)`: called before the first message of every
        claim of this instance, to fill a cache, say. See `SegmentListener`."""
        return self._listen("on_segment_claimed", listener)

    def on_segment_released(self, listener: L) -> L:
        """Called before a claim is given back."""
        return self._listen("on_segment_released", listener)

    def on_segment_lost(self, listener: L) -> L:
        """Called instead, if the claim was lost or something failed."""
        return self._listen("on_segment_lost", listener)

    def _listen(self, event: str, listener: L) -> L:
        self.definition = self.definition.with_listener(listening(event, listener))
        return listener

    def reset(self, to: Start, tx: Connection) -> Position:
        """Put its checkpoint elsewhere and call the reset handlers, in the caller's transaction.
        It goes on from there, running or not; a batch in flight is waited for."""
        key, handlers = self.definition.options.key, self.definition.reset_handlers
        with db.acting(tx, "operate"):
            return reset(
                tx, lambda: db.connect(self.runtime.url), self.runtime.schema, key, to, handlers
            )

    def _has_seen(self, conn: Connection, position: Position) -> bool:
        return has_seen(conn, self.runtime.schema, self.definition.options, position)

    def _checkpoint(self, conn: Connection) -> Position | None:
        return lowest(conn, self.runtime.schema, self.definition.options.key)


if TYPE_CHECKING:

    class NewProcessor(Processor):
        """A processor as `mp.processor(...)` returns it. For type checkers: it is called with a
        handler, and what that returns, with messages."""

        def __call__(self, handler: Any, /) -> Processor: ...

else:
    NewProcessor = Processor


@dataclass(frozen=True, slots=True)
class HandlerRegistration:
    """The decorator of further handlers, which stay what they are."""

    processor: Processor

    def __call__(self, handler: H, *, skip_on_replay: bool = False) -> H:
        self.processor.add(handler, skip_on_replay=skip_on_replay)
        return handler

    def skip_on_replay(self, handler: H) -> H:
        return self(handler, skip_on_replay=True)
