"""A processor as its author holds it: callable as its handler, runnable, waitable."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import db
from milepost.processors.progress import Follower, has_seen, lowest
from milepost.processors.replay.reset import reset
from milepost.processors.runner import Runner
from milepost.records import Position
from milepost.runtime import Runtime

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.handlers import Handler
    from milepost.log import Start
    from milepost.processors.definition import Definition, ResetHandler
    from milepost.runtime import Until
    from milepost.sql import Activity

H = TypeVar("H", bound="Handler")
R = TypeVar("R", bound="ResetHandler")


@dataclass(slots=True, eq=False)
class Processor(Follower):
    """Made by `@mp.processor(...)`. Calling it calls the handler, as in a unit test."""

    kind = "processor"

    definition: Definition  # a new one with every handler that is added
    runtime: Runtime

    @property
    def name(self) -> str:
        return self.definition.options.name

    def __call__(self, *arguments: Any) -> Any:
        return self.definition.handler(*arguments)

    @property
    def handler(self) -> HandlerRegistration:
        """Adds a handler, called after those that are there: `@bill.handler`, or
        `@bill.handler.skip_on_replay` for one that never sees a replayed message."""
        return HandlerRegistration(self)

    def run(self, until: Until = "stopped", stop: Event | None = None) -> None:
        """Run one instance in this thread, until `stop` is set or it has caught up."""
        self.runner(stop or Event()).run(until)

    @property
    def activity(self) -> Activity:
        return "process"

    @property
    def own_connections(self) -> int:
        """Besides those for batches: to keep its turn, or its claims."""
        is_at_least_once = self.definition.options.delivery == "at_least_once"
        return int(self.definition.segments is not None or is_at_least_once)

    def runner(self, stop: Event) -> Runner:
        return Runner(self.definition, self.runtime, stop)

    def on_reset(self, handler: R) -> R:
        """Adds a reset handler, `handler(tx, to)`: called in the transaction of every reset, to
        empty what the processor fills."""
        self.definition = self.definition.with_reset_handler(handler)
        return handler

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


@dataclass(frozen=True, slots=True)
class HandlerRegistration:
    """The decorator of further handlers, which stay what they are."""

    processor: Processor

    def __call__(self, handler: H, *, skip_on_replay: bool = False) -> H:
        self.processor.definition = self.processor.definition.with_handler(
            handler, skip_on_replay=skip_on_replay
        )
        return handler

    def skip_on_replay(self, handler: H) -> H:
        return self(handler, skip_on_replay=True)
