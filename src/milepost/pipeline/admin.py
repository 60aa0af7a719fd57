"""Operate pipelines: list, pause, resume, roll back, drop. Does not need Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from milepost import db
from milepost.checkpoints import CheckpointKey
from milepost.errors import UnknownPipeline, UnknownVersion, VersionInUse
from milepost.pipeline import versions
from milepost.processors.admin import is_recovered
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """The status of a version of a pipeline. `state` is 'silent' if it should report and does not,
    and 'kept' if it is kept for a rollback."""

    name: str
    version: int
    code_version: int
    is_active: bool
    sink: str
    target: str | None
    transaction_id: int | None
    position: int | None
    lag_messages: int
    is_lag_exact: bool
    lag_seconds: float
    state: str
    owner: str | None
    batches: int
    rows: int
    batches_per_second: float
    rows_per_second: float
    phases_ms: dict[str, float] | None
    last_error: str | None
    last_error_at: datetime | None
    built_at: datetime | None
    updated_at: datetime | None
    silent_seconds: float  # since it last reported
    dead_letters: int = 0
    expectations: list[dict[str, Any]] | None = None  # how many rows have passed and violated each
    rejected: str | None = None  # the view of the rows that were set aside
    spark_page: str | None = None  # where Spark shows its jobs, as its last driver reported

    @property
    def is_recovered(self) -> bool | None:
        """From its last error. None if there was none."""
        return is_recovered(
            self.state, self.lag_messages, failed_at=self.last_error_at, moved_at=self.updated_at
        )

    @property
    def checkpoint(self) -> Position | None:
        if self.transaction_id is None or self.position is None:
            return None
        return Position(self.transaction_id, self.position)


def list_pipelines(conn: Connection, schema: str, name: str | None = None) -> list[PipelineStatus]:
    """Every version of every pipeline, or of one."""
    return db.fetch_records(conn, schema, "pipeline_list", PipelineStatus, name=name)


def find(conn: Connection, schema: str, name: str) -> list[PipelineStatus]:
    """Every version of one pipeline. Raises if there is none."""
    found = list_pipelines(conn, schema, name)
    if not found:
        known = {status.name for status in list_pipelines(conn, schema)}
        raise UnknownPipeline(name, sorted(known))
    return found


def set_paused(conn: Connection, schema: str, name: str, *, is_paused: bool) -> None:
    """Takes effect before the next batch, or before the next merge while it catches up. The current
    batch is finished. A rebuild continues."""
    find(conn, schema, name)
    db.run(conn, schema, "pipeline_pause", pipeline=name, is_paused=is_paused)


def roll_back(
    conn: Connection, schema: str, name: str, to_version: int | None = None
) -> tuple[int, int]:
    """Show a kept version again. Returns the version shown before and the one shown now. Its driver
    continues at its own checkpoint: until it has caught up, the target shows an earlier state."""
    find(conn, schema, name)
    known = versions.load_versions(conn, name, schema)
    chosen = versions.version_to_return_to(name, known, to_version)
    active = versions.active_of(known)
    current = None if active is None else active.version
    answer = versions.swap(
        conn, name, schema, current, to_version=chosen, must_have_caught_up=False
    )
    if answer != "swapped":
        raise VersionInUse(
            name, chosen, f"was not swapped in ({answer}): nothing has changed. Run it again"
        )
    return current or 0, chosen


def refuse_undroppable(conn: Connection, schema: str, name: str, version: int) -> None:
    """A version that does not exist, or that is shown. `drop` checks again, under its lock."""
    found = {status.version: status for status in find(conn, schema, name)}
    if version not in found:
        raise UnknownVersion(name, version, sorted(found))
    if found[version].is_active:
        raise VersionInUse(name, version, versions.IS_SHOWN)


def drop(conn: Connection, schema: str, name: str, version: int) -> None:
    find(conn, schema, name)
    versions.drop(conn, CheckpointKey(name, version), schema)
