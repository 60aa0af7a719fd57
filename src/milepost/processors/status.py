"""What an instance of a processor reports about itself, in its row of `processors`."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

from milepost import db
from milepost.handlers import storable
from milepost.processors.deliver.losses import Losses
from milepost.runtime import Status

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.processors.definition import Definition, ProcessorOptions
    from milepost.records import Position


@dataclass(slots=True, kw_only=True)
class ProcessorStatus(Status):
    kind: ClassVar[str] = "processor"
    log: ClassVar[logging.Logger] = logging.getLogger("milepost.processors")

    options: ProcessorOptions
    report_seconds: float = 5.0
    losses: Losses = field(default_factory=Losses)  # not reported; kept from session to session
    _handled: int = field(default=0, init=False)  # since the last report
    _lock: Lock = field(default_factory=Lock, init=False)

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def version(self) -> int:
        return self.options.version

    def register(self, conn: Connection, definition: Definition) -> None:
        selection = self.options.selection.parameters()
        db.run(
            conn,
            self.schema,
            "processor_register",
            **self.options.key.parameters(),
            topics=selection["topics"],
            types=selection["types"],
            owner=self.owner,
            has_reset_handlers=bool(definition.reset_handlers),
            mode=definition.mode,
        )
        self.reported_at = self.clock()
        self.is_active = False  # another may have taken over; the first batch will show it

    def batch(self, conn: Connection, messages: int, reached: Position) -> None:
        """A batch is committed. The row follows every few seconds."""
        self.log.debug("%s batch=%s position=%s", self, messages, reached)
        self.progress += 1
        self.is_active = True
        with self._lock:
            self._handled += messages
        self.change(conn, "running")
        if self.seconds_since_report() >= self.report_seconds:
            self.write(conn)

    def is_silent(self) -> bool:
        """Whether a sign of life is due of an instance that has nothing to do."""
        return self.seconds_since_report() >= 2 * self.report_seconds

    def claim(self) -> None:
        """The handler was called, so the guard held: the row is this instance's."""
        self.is_active = True

    def write(self, conn: Connection, error: str | None = None) -> None:
        handled, rate = self.take_handled()
        try:
            found = db.run(
                conn,
                self.schema,
                "processor_report",
                **self.options.key.parameters(),
                state=self.state,
                owner=self.owner,
                handled=handled,
                rate=rate,
                error=None if error is None else storable(error),
                is_active=self.is_active,
            )
        except BaseException:
            self.give_back(handled)
            raise
        self.reported(handled, is_written=bool(found))

    def take_handled(self) -> tuple[int, float]:
        """How many messages since the last report, and how many a second. The caller reports them,
        or gives them back: another thread may report at the same time."""
        elapsed = self.seconds_since_report()
        with self._lock:
            handled, self._handled = self._handled, 0
        return handled, handled / elapsed if elapsed > 0 else 0.0

    def reported(self, handled: int, *, is_written: bool) -> None:
        """Not written: the row is another instance's."""
        if not is_written:
            self.give_back(handled)
        self.reported_at = self.clock()

    def give_back(self, handled: int) -> None:
        """They were not reported: they belong to the next report."""
        with self._lock:
            self._handled += handled
