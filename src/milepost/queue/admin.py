"""What operators do with the queue: look, cancel, retry, drop, purge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from milepost import db
from milepost.errors import UnknownJob
from milepost.records import Verdict

if TYPE_CHECKING:
    from milepost.db import Connection

Status: TypeAlias = Literal["ready", "scheduled", "waiting", "running", "dead", "done", "cancelled"]
ALL = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The whole queue at a glance. `waiting`: for other jobs. `rate`: attempts that ended a second,
    as workers lately said. `overdue`: scheduled jobs that are due. `estimated`: names the numbers
    that are not exact."""

    ready: int
    scheduled: int
    running: int
    dead: int
    kept: int
    channels: int
    oldest_due_seconds: float | None
    rate: float
    waiting: int = 0
    overdue: int = 0
    estimated: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A channel that has jobs, a policy or an upkeep, or a family with one. The limits are those
    that apply; `family`: whose they are, if they are not its own. `overdue`, `estimated`: as in
    QueueStatus; `rank`: as in ChannelGauges."""

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
    family: str | None = None
    max_concurrency_total: int | None = None
    rate_count: int | None = None
    rate_seconds: float | None = None
    rate_burst: int | None = None
    waiting: int = 0
    keep_dead_seconds: float | None = None
    ageing_seconds: float | None = None
    overdue: int = 0
    estimated: Sequence[str] = ()
    rank: int = 3


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Everything known about one job. `after`: what it waits for."""

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
    after: list[int]


def summary(conn: Connection, schema: str, max_counted: int | None = ALL) -> QueueStatus:
    """The gauges of `milepost.metrics()`. `max_counted`: None is its own bound, for those who look
    often."""
    return db.fetch_records(conn, schema, "queue_summary", QueueStatus, max_counted=max_counted)[0]


def list_channels(
    conn: Connection,
    schema: str,
    *,
    name: str | None = None,
    max_channels: int = ALL,
    max_counted: int | None = ALL,
) -> list[ChannelStatus]:
    """By rank and name: all or one, or the first and those with limits. `max_counted`: as
    `summary`."""
    bounds = {"max_channels": max_channels, "max_counted": max_counted}
    return db.fetch_records(conn, schema, "queue_channels", ChannelStatus, name=name, **bounds)


def list_jobs(
    conn: Connection,
    schema: str,
    channel: str | None = None,
    status: Status | None = None,
    max_count: int = 100,
    id_: int | None = None,
    ids: Sequence[int] | None = None,
) -> list[JobStatus]:
    """The oldest first."""
    parameters = {"channel": channel, "status": status, "max_count": max_count, "id": id_}
    chosen = None if ids is None else list(ids)
    return db.fetch_records(conn, schema, "queue_jobs", JobStatus, **parameters, ids=chosen)


def find_ids(
    conn: Connection,
    schema: str,
    *,
    channel: str | None = None,
    status: Status | None = None,
    search: str | None = None,
    after: int | None = None,
    max_count: int = 1_000_000,
) -> list[int]:
    """The ids of jobs, the oldest first. `search`: an id, or a part of the unique key, of the last
    error or of the content."""
    parameters = {"channel": channel, "status": status, "search": search, "after": after}
    rows = db.fetch_all(conn, schema, "queue_find_ids", **parameters, max_count=max_count)
    return [id_ for (id_,) in rows]


def find(conn: Connection, schema: str, id_: int) -> JobStatus:
    for job in list_jobs(conn, schema, id_=id_):
        return job
    raise UnknownJob(id_)


def cancel(conn: Connection, schema: str, ids: Sequence[int]) -> list[Verdict]:
    """DONE: it waited, and is finished. CANCELLED: it runs, and was asked to stop."""
    return [Verdict(row[0]) for row in db.fetch_all(conn, schema, "queue_cancel", ids=list(ids))]


def retry(conn: Connection, schema: str, ids: Sequence[int]) -> list[Verdict]:
    """Dead jobs become ready, without failures. STALE: it is not dead, or another job has its
    unique key."""
    return [Verdict(row[0]) for row in db.fetch_all(conn, schema, "queue_retry", ids=list(ids))]


def key_holders(conn: Connection, schema: str, ids: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Of dead jobs that cannot be retried: the job that has their unique key, and the key."""
    rows = db.fetch_all(conn, schema, "queue_key_holders", ids=list(ids))
    return {id_: (holder, key) for id_, holder, key in rows}


def dead_ids(conn: Connection, schema: str, channel: str | None = None) -> list[int]:
    return [id_ for (id_,) in db.fetch_all(conn, schema, "queue_dead_ids", channel=channel)]


def drop(conn: Connection, schema: str, ids: Sequence[int]) -> list[int]:
    """Delete dead jobs; the ids of those that were dead. Jobs that wait for one go on."""
    return [id_ for (id_,) in db.fetch_all(conn, schema, "queue_drop", ids=list(ids))]


def purge(conn: Connection, schema: str, channel: str, statuses: Sequence[Status]) -> int:
    """Delete the jobs of a channel, except for running ones; how many. Jobs that wait for one that
    has not begun are cancelled."""
    row = db.fetch_one(conn, schema, "queue_purge", channel=channel, statuses=list(statuses))
    return int(row[0])
