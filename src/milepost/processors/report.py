"""What a processor tells of itself, and what its operators ask of it.

Reports are statements of their own on an autocommit connection, never part of a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import sql
from milepost.db import one, translated
from milepost.handlers import storable
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.definition import ProcessorOptions

State: TypeAlias = Literal[
    "starting", "running", "standby", "paused", "reconnecting", "retrying", "failed", "stopped"
]
REPORT_SECONDS = 5.0
ORDERS_SECONDS = 2.0
PRUNE_SECONDS = 60.0
log = logging.getLogger("milepost.processors")


@dataclass(frozen=True, slots=True)
class Orders:
    """What the operators want, as of one moment."""

    is_paused: bool
    has_retries: bool
    checkpoint: Position | None  # what it is at this moment; None where not just asked

    @property
    def is_fresh(self) -> bool:
        return self.checkpoint is not None

    def has_reset(self, known: Position) -> bool:
        """Whether the checkpoint stands before where it was known to be."""
        return self.checkpoint is not None and self.checkpoint < known


@dataclass(slots=True)
class Reporter:
    """Keeps the row in `processors` true, without a statement more than needed."""

    options: ProcessorOptions
    owner: str
    schema: str
    clock: Callable[[], float] = time.monotonic
    state: State = "starting"
    batches: int = field(default=0, init=False)
    _handled: int = field(default=0, init=False)
    _pruned_at: float = field(default=0.0, init=False)
    _reported_at: float = field(default=0.0, init=False)
    _is_active: bool = field(default=False, init=False)
    _asked_at: float | None = field(default=None, init=False)
    _orders: Orders = field(
        default=Orders(is_paused=False, has_retries=False, checkpoint=None), init=False
    )

    def register(
        self, conn: Connection, *, has_reset_handlers: bool = False, mode: str | None = None
    ) -> None:
        selection = self.options.selection.parameters()
        parameters = self._of() | {
            "topics": selection["topics"],
            "types": selection["types"],
            "owner": self.owner,
            "has_reset_handlers": has_reset_handlers,
            "mode": mode,
        }
        with translated(self.schema):
            conn.execute(sql.query("processor_register", self.schema), parameters)
        self._reported_at = self.clock()
        self._is_active = False  # another may have taken over; the first batch will tell

    def batch(self, conn: Connection, messages: int, reached: Position) -> None:
        """A batch is done; the row follows every few seconds."""
        log.debug(
            "processor=%s version=%s batch=%s position=%s",
            self.options.name, self.options.version, messages, reached,
        )  # fmt: skip
        self.batches += 1
        self._is_active = True
        self._handled += messages
        self.change(conn, "running")
        if self.clock() - self._reported_at >= REPORT_SECONDS:
            self._write(conn, None)

    def change(self, conn: Connection | None, state: State, error: str | None = None) -> None:
        """The state changes: one line in the log, and the row if there is a connection."""
        if state == self.state and error is None:
            return
        self.state = state
        level = logging.INFO if error is None else logging.WARNING
        suffix = "" if error is None else f" error={error!r}"
        log.log(
            level, "processor=%s version=%s state=%s owner=%s%s",
            self.options.name, self.options.version, state, self.owner, suffix,
        )  # fmt: skip
        if conn is not None and not conn.closed:
            self._write(conn, error)

    def idle(self, conn: Connection) -> None:
        """Nothing to do: a sign of life now and then. A standby that may write the row is none
        any more: whoever was active has been silent for a while."""
        if self.state in ("starting", "paused", "retrying", "reconnecting"):
            self.change(conn, "running")
        if self.clock() - self._reported_at >= 2 * REPORT_SECONDS:
            self._write(conn, None, "running")

    def claim(self) -> None:
        """The handler was called, so the guard held: the row is this instance's."""
        self._is_active = True

    def is_pruning_due(self) -> bool:
        is_due = self.clock() - self._pruned_at >= PRUNE_SECONDS
        if is_due:
            self._pruned_at = self.clock()
        return is_due

    def orders(self, conn: Connection) -> Orders:
        """What the operators want, asked at most every two seconds."""
        now = self.clock()
        if self._asked_at is None or now - self._asked_at >= ORDERS_SECONDS:
            self._asked_at = now
            orders = self._ask(conn)
            self._orders = replace(orders, checkpoint=None)
            return orders
        return self._orders

    def _ask(self, conn: Connection) -> Orders:
        with translated(self.schema):
            row = conn.execute(sql.query("processor_orders", self.schema), self._of()).fetchone()
        is_paused, has_retries, transaction_id, position = one(row)
        at = None if position is None else Position(transaction_id, position)
        return Orders(is_paused, has_retries, at)

    def _write(self, conn: Connection, error: str | None, state: State | None = None) -> None:
        now = self.clock()
        elapsed = now - self._reported_at
        parameters = self._of() | {
            "state": state or self.state,
            "owner": self.owner,
            "handled": self._handled,
            "rate": self._handled / elapsed if elapsed > 0 else 0.0,
            "error": None if error is None else storable(error),
            "is_active": self._is_active,
        }
        with translated(self.schema):
            found = conn.execute(sql.query("processor_report", self.schema), parameters).rowcount
        self._reported_at = now
        if found:
            self._handled, self.state = 0, state or self.state

    def _of(self) -> dict[str, object]:
        return {"processor": self.options.name, "version": self.options.version}
