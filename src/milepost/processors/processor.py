"""A processor as its author holds it: callable as its handler, runnable, waitable."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from milepost import db
from milepost.errors import WaitTimedOut
from milepost.log import horizon
from milepost.processors.reset import reset
from milepost.processors.runner import Runner
from milepost.processors.segmented.progress import has_seen, lowest
from milepost.processors.waiting import holds_within
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.handlers import Handler
    from milepost.log import Start
    from milepost.processors.definition import Definition, ResetHandler
    from milepost.processors.session import Until

H = TypeVar("H", bound="Handler")
R = TypeVar("R", bound="ResetHandler")


@dataclass(slots=True, eq=False)
class Processor:
    """Made by `@mp.processor(...)`. Calling it calls the handler, as in a unit test."""

    definition: Definition  # a new one with every handler that is added
    url: str = field(repr=False)
    schema: str

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

    def runner(self, stop: Event) -> Runner:
        return Runner(self.definition, self.url, self.schema, stop)

    def position(self) -> Position | None:
        """Its checkpoint, that of the segment furthest behind; None before it has ever run."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            return self._checkpoint(conn)

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
            return reset(tx, lambda: db.connect(self.url), self.schema, key, to, handlers)

    def caught_up(self) -> bool:
        """Whether nothing that it reads lies between its checkpoint and the horizon."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            return self._has_seen(conn, horizon(conn, self.schema).position)

    def wait_for(self, position: Position, timeout: float = 10.0) -> None:
        """Return once everything up to `position` has been handled: read your own writes.
        Raises WaitTimedOut after `timeout` seconds."""
        with db.connect(self.url) as conn, db.acting(conn, "read"):
            if not holds_within(lambda: self._has_passed(conn, position), timeout):
                checkpoint = self._checkpoint(conn)
                raise WaitTimedOut("processor", self.name, position, checkpoint, timeout)

    def _has_passed(self, conn: Connection, position: Position) -> bool:
        """Also where the checkpoint stands lower, if all between was filtered out."""
        checkpoint = self._checkpoint(conn)
        if checkpoint is not None and checkpoint >= position:
            return True
        return horizon(conn, self.schema).position >= position and self._has_seen(conn, position)

    def _has_seen(self, conn: Connection, position: Position) -> bool:
        return has_seen(conn, self.schema, self.definition.options, position)

    def _checkpoint(self, conn: Connection) -> Position | None:
        return lowest(conn, self.schema, self.definition.options.key)


@dataclass(frozen=True, slots=True)
class HandlerRegistration:
    """The decorator of further handlers, which stay what they are."""

    processor: Processor

    def __call__(self, handler: H) -> H:
        self.processor.definition = self.processor.definition.with_handler(handler)
        return handler

    def skip_on_replay(self, handler: H) -> H:
        self.processor.definition = self.processor.definition.with_handler(
            handler, skip_on_replay=True
        )
        return handler
