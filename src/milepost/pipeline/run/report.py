"""What a pipeline reports.

With a stream, the thread that runs batches counts them, and the thread that watches the query
reports them, on another connection: reports and batches never wait for each other.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from milepost import db
from milepost.handlers import storable
from milepost.runtime import Status

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.write import Written

REPORT_SECONDS = 1.0
IDLE_SECONDS = 10.0


@dataclass(slots=True, kw_only=True)
class PipelineStatus(Status):
    """Updates the row in `pipelines`, about once a second while it works."""

    kind: ClassVar[str] = "pipeline"
    log: ClassVar[logging.Logger] = logging.getLogger("milepost.pipelines")

    options: PipelineOptions
    spark_page: str | None = None
    total_rows: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _batches: int = field(default=0, init=False)
    _rows: int = field(default=0, init=False)
    _phases_ms: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def version(self) -> int:
        return self.options.version

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
            "spark_page": self.spark_page,
        }

    def register(self, conn: Connection) -> None:
        db.run(conn, self.schema, "pipeline_register", **self.facts())
        self.reported_at = self.clock()
        self.is_active = False  # until the first batch: another driver may have taken over

    def batch(self, written: Written) -> None:
        """A batch is done. Called by the thread that ran it."""
        with self._lock:
            self.progress += 1
            self._batches += 1
            self._rows += written.rows
            self.total_rows += written.rows
            self._phases_ms = written.phases_ms
            self.is_active = True

    def tick(self, conn: Connection, spark_phases: Callable[[], dict[str, float]]) -> None:
        """Report if it is time to. Called by the thread that watches."""
        due_seconds = REPORT_SECONDS if self._batches else IDLE_SECONDS
        if self.seconds_since_report() >= due_seconds:
            self._write(conn, None, spark_phases() if self._batches else {})

    def write(self, conn: Connection, error: str | None = None) -> None:
        self._write(conn, error, {})

    def _write(self, conn: Connection, error: str | None, spark_phases: dict[str, float]) -> None:
        now = self.clock()
        elapsed = max(self.seconds_since_report(), 0.001)
        with self._lock:
            batches, rows, phases = self._batches, self._rows, spark_phases | self._phases_ms
        db.run(
            conn,
            self.schema,
            "pipeline_report",
            **of(self.options),
            state=self.state,
            owner=self.owner,
            batches=batches,
            rows=rows,
            batches_per_second=batches / elapsed,
            rows_per_second=rows / elapsed,
            phases_ms=json.dumps(phases) if phases else None,
            error=None if error is None else storable(error),
            is_active=self.is_active,
        )
        with self._lock:  # only now: what a lost server did not receive is reported later
            self._batches -= batches
            self._rows -= rows
        self.reported_at = now


def of(options: PipelineOptions) -> dict[str, Any]:
    return {"pipeline": options.name, "version": options.version}
