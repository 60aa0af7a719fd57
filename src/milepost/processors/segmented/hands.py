"""The connections of one pool thread. They belong to the thread, not to a segment: an instance
needs as many as it handles segments at once, not as many as it has claimed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost import db
from milepost.processors.effects import AtLeastOnce, Effects, ExactlyOnce, ExactlyOnceAsync
from milepost.processors.handling import NOTHING, Supply

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection
    from milepost.processors.colour import EventLoop
    from milepost.processors.definition import Definition


@dataclass(slots=True, eq=False)
class Hands:
    definition: Definition
    conn: Connection
    async_conn: AsyncConnection | None
    loop: EventLoop | None
    schema: str
    _stack: ExitStack = field(default_factory=ExitStack)

    def effects(self, supply: Supply = NOTHING) -> Effects:
        """How the handlers take effect through this thread's connections, for one segment."""
        if self.definition.options.delivery == "at_least_once":
            return AtLeastOnce(self.definition, self.conn, self.loop, None, self.schema, supply)
        if self.async_conn is None or self.loop is None:
            return ExactlyOnce(self.definition, self.conn, self.schema, supply)
        return ExactlyOnceAsync(self.definition, self.async_conn, self.loop, self.schema, supply)

    def is_lost(self) -> bool:
        return self.conn.closed or (self.async_conn is not None and self.async_conn.closed)

    def close(self) -> None:
        self._stack.close()


def open_hands(definition: Definition, url: str, schema: str, loop: EventLoop | None) -> Hands:
    name = f"milepost {definition.options.name}"[:63]
    with ExitStack() as stack:
        conn = stack.enter_context(db.connect(url, application_name=name))
        db.detect_dead_peers(conn)
        async_conn = None
        if loop is not None and _needs_async(definition):
            async_conn = loop.run(db.connect_async(url, application_name=name))
            stack.callback(lambda: loop.run(async_conn.close()))
            loop.run(db.detect_dead_peers_async(async_conn))
        return Hands(definition, conn, async_conn, loop, schema, stack.pop_all())


def _needs_async(definition: Definition) -> bool:
    return definition.options.delivery == "exactly_once" and definition.is_tx_async
