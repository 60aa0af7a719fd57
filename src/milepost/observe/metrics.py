"""Every gauge in one look: one call of `milepost.metrics()`, as records.

It has numbers, names and positions, and no payload: neither data nor errors. The function in SQL
says which counts are exact and which are estimates above a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from milepost import db, sql
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection

Section: TypeAlias = Literal["log", "processors", "segments", "pipelines", "queue", "retention"]
MAX_CHANNELS = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGauges:
    """`messages`: as the server estimates, if there are many. Without a horizon, `refusal` says why
    the log cannot be read. `horizon_age_seconds`: since when the horizon is held back; 0: it is
    not."""

    order: sql.LogOrder
    refusal: str | None
    messages: int
    is_messages_exact: bool = False
    newest_transaction_id: int | None
    newest_position: int | None
    newest_age_seconds: float | None
    oldest_age_seconds: float | None
    horizon_transaction_id: int | None
    horizon_position: int | None
    horizon_lag_messages: int | None
    is_horizon_lag_exact: bool | None
    horizon_age_seconds: float | None
    holders: int
    removed_transaction_id: int
    removed_position: int

    @property
    def newest(self) -> Position | None:
        return _position(self.newest_transaction_id, self.newest_position)

    @property
    def horizon(self) -> Position | None:
        return _position(self.horizon_transaction_id, self.horizon_position)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorGauges:
    """`oldest_gap_seconds`: the age of the first message that self-checkpointing handlers have
    handled and not made durable; 0 if there is none."""

    name: str
    version: int
    transaction_id: int | None
    position: int | None
    state: str
    lag_messages: int
    is_lag_exact: bool
    lag_seconds: float
    oldest_gap_seconds: float
    rate: float
    handled: int
    dead_letters: int
    parked_keys: int
    segments: int | None
    instances: int
    silent_seconds: float

    @property
    def checkpoint(self) -> Position | None:
        return _position(self.transaction_id, self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGauges:
    """How many segments of a processor are in which state."""

    processor: str
    version: int
    claimed: int
    unclaimed: int
    wanted: int
    failing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineGauges:
    """A version of a pipeline. `phases_ms`: of its last reported batch. `progress`: of a rebuild,
    from 0 to 1; None for a version that is built."""

    name: str
    version: int
    is_active: bool
    transaction_id: int | None
    position: int | None
    state: str
    lag_messages: int
    is_lag_exact: bool
    lag_seconds: float
    batches: int
    rows: int
    batches_per_second: float
    rows_per_second: float
    phases_ms: dict[str, float] | None
    progress: float | None
    dead_letters: int
    silent_seconds: float

    @property
    def checkpoint(self) -> Position | None:
        return _position(self.transaction_id, self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelGauges:
    """A channel with jobs, and the limits that apply to it; or the sum of `channels` others, which
    has no name. `overdue`: scheduled jobs that are due. `estimated`: names the numbers that are not
    exact. `rank`: 0: it has dead jobs, 1: a job is due for a minute, 2: it is at a limit, 3: none
    of these."""

    name: str | None = None
    channels: int = 1
    ready: int
    scheduled: int
    waiting: int
    running: int
    dead: int
    overdue: int = 0
    estimated: Sequence[str] = ()
    rank: int = 3
    oldest_due_seconds: float | None
    rate: float
    is_paused: bool = False
    family: str | None = None
    max_concurrency: int | None = None
    max_concurrency_total: int | None = None
    max_size: int | None = None
    release_seconds: float | None = None
    rate_count: int | None = None
    rate_seconds: float | None = None
    rate_burst: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGauges:
    """The queue, its channels by rank and depth, and the sum of all `other` ones. `overdue`,
    `estimated`: as of a channel."""

    ready: int
    scheduled: int
    waiting: int
    running: int
    dead: int
    kept: int
    overdue: int = 0
    estimated: Sequence[str] = ()
    channel_count: int
    oldest_due_seconds: float | None
    rate: float
    channels: tuple[ChannelGauges, ...]
    other: ChannelGauges


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionGauges:
    """The policy and the archive. `gate`: the consumer that is furthest behind, and keeps messages
    in the log. The waiting seconds are None if nothing waits."""

    keep_seconds: float | None
    keep_messages: int | None
    has_archive: bool
    archive_after_seconds: float | None
    removed_transaction_id: int
    removed_position: int
    removal_waiting_seconds: float | None
    gate: str | None
    gate_transaction_id: int | None
    gate_position: int | None
    archive_files: int
    archive_messages: int
    archive_bytes: int
    archived_transaction_id: int | None
    archived_position: int | None
    archive_waiting_seconds: float | None

    @property
    def archived(self) -> Position | None:
        """None if no file was written."""
        found = _position(self.archived_transaction_id, self.archived_position)
        return found if self.archive_files else None

    @property
    def removed(self) -> Position | None:
        """None if nothing was removed."""
        found = Position(self.removed_transaction_id, self.removed_position)
        return found if found.position else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Everything at one moment. A section that was not asked for is None, or empty. `document`: as
    the server answered."""

    at: float
    log: LogGauges | None
    processors: tuple[ProcessorGauges, ...]
    segments: tuple[SegmentGauges, ...]
    pipelines: tuple[PipelineGauges, ...]
    queue: QueueGauges | None
    retention: RetentionGauges | None
    document: dict[str, Any] = field(repr=False, compare=False)


def look(
    conn: Connection,
    schema: str = sql.DEFAULT_SCHEMA,
    sections: Sequence[Section] | None = None,
    max_channels: int = MAX_CHANNELS,
) -> Metrics:
    """One query. Only these sections, or all of them."""
    wanted = None if sections is None else list(sections)
    with db.acting(conn, "metrics"):
        (document,) = db.fetch_one(
            conn, schema, "metrics", sections=wanted, max_channels=max_channels
        )
    return from_document(document)


def from_document(document: dict[str, Any]) -> Metrics:
    queue = document["queue"]
    return Metrics(
        at=document["at"],
        log=_record(LogGauges, document["log"]),
        processors=_records(ProcessorGauges, document["processors"]),
        segments=_records(SegmentGauges, document["segments"]),
        pipelines=_records(PipelineGauges, document["pipelines"]),
        queue=queue and _queue(queue),
        retention=_record(RetentionGauges, document["retention"]),
        document=document,
    )


def _queue(document: dict[str, Any]) -> QueueGauges:
    parts = {
        "channels": _records(ChannelGauges, document["channels"]),
        "other": _record(ChannelGauges, document["other"]),
    }
    return _known(QueueGauges, document | parts)


def _records(record: type[T], documents: list[dict[str, Any]] | None) -> tuple[T, ...]:
    return tuple(_known(record, document) for document in documents or ())


def _record(record: type[T], document: dict[str, Any] | None) -> T | None:
    return None if document is None else _known(record, document)


def _known(record: type[T], document: dict[str, Any]) -> T:
    """Without what this release does not know: the schema may be that of the next one."""
    names = [each.name for each in fields(record)]  # type: ignore[arg-type]  # a dataclass
    return record(**{name: document[name] for name in names if name in document})


def _position(transaction_id: int | None, position: int | None) -> Position | None:
    if transaction_id is None or position is None:
        return None
    return Position(transaction_id, position)
