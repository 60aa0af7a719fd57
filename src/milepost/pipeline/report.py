"""What a pipeline tells of itself, and what its operators ask of it.

Batches are counted by the thread that runs them and reported by the one that watches the query,
on a connection of its own: a report never waits for a batch, nor a batch for a report.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from milepost import sql
from milepost.db import one, translated
from milepost.handlers import storable
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.writer import Written

State: TypeAlias = Literal["starting", "running", "rebuilding", "reconnecting", "failed", "stopped"]
REPORT_SECONDS = 1.0
IDLE_SECONDS = 10.0
log = logging.getLogger("milepost.pipelines")


@dataclass(frozen=True, slots=True)
class Orders:
    """Where the checkpoint stands and what the operators want, as of one moment."""

    checkpoint: Position | None
    epoch: int | None
    owner: str | None
    is_held: bool
    spark_run: str | None


def ask_orders(conn: Connection, options: PipelineOptions, schema: str) -> Orders:
    with translated(schema):
        row = conn.execute(sql.query("pipeline_orders", schema), of(options)).fetchone()
    transaction_id, position, epoch, owner, is_held, spark_run = one(row)
    checkpoint = None if position is None else Position(transaction_id, position)
    return Orders(checkpoint, epoch, owner, is_held, spark_run)


@dataclass(slots=True)
class Reporter:
    """Keeps the row in `pipelines` true, about once a second of work."""

    options: PipelineOptions
    owner: str
    schema: str
    clock: Callable[[], float] = time.monotonic
    state: State = "starting"
    total_batches: int = field(default=0, init=False)
    total_rows: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _batches: int = field(default=0, init=False)
    _rows: int = field(default=0, init=False)
    _phases_ms: dict[str, float] = field(default_factory=dict, init=False)
    _reported_at: float = field(default=0.0, init=False)
    _is_active: bool = field(default=False, init=False)

    def facts(self) -> dict[str, Any]:
        """What is known of the pipeline before it runs."""
        selection = self.options.selection.parameters()
        table = self.options.table
        return of(self.options) | {
            "topics": selection["topics"],
            "types": selection["types"],
            "code_version": self.options.code,
            "sink": self.options.sink.describe(),
            "target_schema": None if table is None else table.schema,
            "target": None if table is None else table.name,
            "target_table": None if table is None else table.versioned(self.options.version),
            "owner": self.owner,
        }

    def register(self, conn: Connection) -> None:
        with translated(self.schema):
            conn.execute(sql.query("pipeline_register", self.schema), self.facts())
        self._reported_at = self.clock()
        self._is_active = False  # another may have taken over; the first batch will tell

    def batch(self, written: Written) -> None:
        """A batch is done. Called by the thread that ran it."""
        with self._lock:
            self.total_batches += 1
            self._batches += 1
            self._rows += written.rows
            self.total_rows += written.rows
            self._phases_ms = written.phases_ms
            self._is_active = True

    def change(self, conn: Connection | None, state: State, error: str | None = None) -> None:
        """The state changes: one line in the log, and the row if there is a connection."""
        if state == self.state and error is None:
            return
        self.state = state
        level = logging.INFO if error is None else logging.WARNING
        suffix = "" if error is None else f" error={error!r}"
        log.log(
            level, "pipeline=%s version=%s state=%s owner=%s%s",
            self.options.name, self.options.version, state, self.owner, suffix,
        )  # fmt: skip
        if conn is not None and not conn.closed:
            self._write(conn, error, {})

    def tick(self, conn: Connection, spark_phases: Callable[[], dict[str, float]]) -> None:
        """Look whether there is something to report. Called by the thread that watches."""
        due_seconds = REPORT_SECONDS if self._batches else IDLE_SECONDS
        if self.clock() - self._reported_at >= due_seconds:
            self._write(conn, None, spark_phases() if self._batches else {})

    def flush(self, conn: Connection) -> None:
        """Report what has not been yet."""
        self._write(conn, None, {})

    def _write(self, conn: Connection, error: str | None, spark_phases: dict[str, float]) -> None:
        now = self.clock()
        elapsed = max(now - self._reported_at, 0.001)
        with self._lock:
            batches, rows, phases = self._batches, self._rows, spark_phases | self._phases_ms
        parameters = of(self.options) | {
            "state": self.state,
            "owner": self.owner,
            "batches": batches,
            "rows": rows,
            "batches_per_second": batches / elapsed,
            "rows_per_second": rows / elapsed,
            "phases_ms": json.dumps(phases) if phases else None,
            "error": None if error is None else storable(error),
            "is_active": self._is_active,
        }
        with translated(self.schema):
            conn.execute(sql.query("pipeline_report", self.schema), parameters)
        with self._lock:  # what a lost server has not heard of is told to the next one
            self._batches -= batches
            self._rows -= rows
        self._reported_at = now


def of(options: PipelineOptions) -> dict[str, Any]:
    return {"pipeline": options.name, "version": options.version}
