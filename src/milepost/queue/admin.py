"""What operators do with the queue: look, cancel, retry, drop, purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from psycopg.rows import class_row

from milepost import sql
from milepost.db import translated
from milepost.errors import UnknownJob
from milepost.queue import take
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.db import Connection

Status: TypeAlias = Literal["ready", "scheduled", "running", "dead", "done", "cancelled"]


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The whole queue at a glance. `rate`: attempts that ended a second, as workers lately said."""

    ready: int
    scheduled: int
    running: int
    dead: int
    kept: int
    channels: int
    oldest_due_seconds: float | None
    rate: float


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel that has jobs or a policy."""

    name: str
    ready: int
    scheduled: int
    running: int
    dead: int
    oldest_due_seconds: float | None
    rate: float
    max_concurrency: int | None
    release_seconds: float | None
    max_size: int | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Everything known about one job."""

    id: int
    channel: str
    status: Status
    attempt: int
    failures: int
    max_attempts: int
    priority: int
    run_at: datetime
    locked_until: datetime | None
    created_at: datetime
    finished_at: datetime | None
    unique_key: str | None
    is_cancelled: bool
    content: bytes
    state: bytes | None
    progress: bytes | None
    result: bytes | None
    last_error: str | None


def summary(conn: Connection, schema: str) -> QueueStatus:
    with translated(schema), conn.cursor(row_factory=class_row(QueueStatus)) as cursor:
        return cursor.execute(sql.query("queue_summary", schema)).fetchall()[0]


def list_channels(conn: Connection, schema: str) -> list[ChannelStatus]:
    with translated(schema), conn.cursor(row_factory=class_row(ChannelStatus)) as cursor:
        return cursor.execute(sql.query("queue_channels", schema)).fetchall()


def list_jobs(
    conn: Connection,
    schema: str,
    channel: str | None = None,
    status: Status | None = None,
    max_count: int = 100,
    id_: int | None = None,
) -> list[JobStatus]:
    """The oldest first."""
    parameters = {"channel": channel, "status": status, "max_count": max_count, "id": id_}
    with translated(schema), conn.cursor(row_factory=class_row(JobStatus)) as cursor:
        return cursor.execute(sql.query("queue_jobs", schema), parameters).fetchall()


def find(conn: Connection, schema: str, id_: int) -> JobStatus:
    for job in list_jobs(conn, schema, id_=id_):
        return job
    raise UnknownJob(id_)


def cancel(conn: Connection, schema: str, ids: Sequence[int]) -> list[Verdict]:
    """DONE: it waited, and is gone. CANCELLED: it runs, and was asked to stop."""
    return take.cancel(conn, ids, schema)


def retry(conn: Connection, schema: str, ids: Sequence[int]) -> list[Verdict]:
    return take.retry(conn, ids, schema)


def dead_ids(conn: Connection, schema: str, channel: str | None = None) -> list[int]:
    with translated(schema):
        rows = conn.execute(sql.query("queue_dead_ids", schema), {"channel": channel}).fetchall()
    return [id_ for (id_,) in rows]


def drop(conn: Connection, schema: str, ids: Sequence[int]) -> list[int]:
    """Delete dead jobs; those that were."""
    with translated(schema):
        rows = conn.execute(sql.query("queue_drop", schema), {"ids": list(ids)}).fetchall()
    return [id_ for (id_,) in rows]


def purge(conn: Connection, schema: str, channel: str, statuses: Sequence[Status]) -> int:
    """Delete what is in a channel, but for what runs; how many."""
    parameters = {"channel": channel, "statuses": list(statuses)}
    with translated(schema):
        return conn.execute(sql.query("queue_purge", schema), parameters).rowcount
