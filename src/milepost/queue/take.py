"""Take jobs, and say what became of them: one statement each, for many jobs at once.

Every verb names its jobs with their attempt and token, the fence, and answers with a verdict for
each, in order. What is to be said is a `Statement`; who says it, a connection of either colour, is
a second question.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from milepost import sql
from milepost.db import translated
from milepost.queue.rotation import Rotation
from milepost.records import TakenJob, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from milepost.db import AsyncConnection, Connection, Statement
    from milepost.queue.rotation import Head

_VERDICTS = {verdict.value: verdict for verdict in Verdict}


@dataclass(slots=True)
class Taker:
    """Takes in rotation over the channels of a pattern, batch by batch. Remembers its place, and
    where the jobs lie that are next (see rotation.py). Without `is_durable` a crash of the server
    may forget a take, and its jobs come again: for connections that do nothing else."""

    pattern: str = "*"
    lock_seconds: float = 30.0
    schema: str = sql.DEFAULT_SCHEMA
    rotation: Rotation = field(default_factory=Rotation)
    is_durable: bool = True

    def take(self, conn: Connection, max_count: int, *, with_duties: bool = True) -> list[TakenJob]:
        """Up to so many jobs. None at all may be a false answer under contention: ask again. The
        duties of every take (see queue_duties) may be left to the next one, where the pattern is a
        name: then whoever was woken has its job sooner."""
        started = time.monotonic()
        heads = self.rotation.heads(started)
        if heads:
            jobs = take_from(
                conn, heads, max_count, self.lock_seconds, self.schema, is_durable=self.is_durable
            )
            self.rotation.took_from(heads, jobs, time.monotonic() - started)
            if jobs:
                return jobs
        started = time.monotonic()
        jobs = take(
            conn, max_count, self.lock_seconds, self.pattern, self.rotation.after, self.schema,
            is_durable=self.is_durable, max_channels=self.rotation.width, with_duties=with_duties,
        )  # fmt: skip
        now = time.monotonic()
        self.rotation.took(jobs, now - started, now, is_all=len(jobs) == max_count)
        return jobs


def take(
    conn: Connection,
    max_count: int,
    lock_seconds: float = 30.0,
    pattern: str = "*",
    after: str | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
    *,
    is_durable: bool = True,
    max_channels: int = 100,
    with_duties: bool = True,
) -> list[TakenJob]:
    """Up to so many jobs over the channels of a pattern, beginning after a channel."""
    if not pattern.endswith("*"):
        # There is no rotation, and so less to do.
        named = {
            "channel": pattern,
            "max_count": max_count,
            "lock_seconds": lock_seconds,
            "is_durable": is_durable,
            "with_duties": with_duties,
        }
        return _taken(conn, (sql.query("queue_take_named", schema), named), schema)
    parameters = {
        "max_count": max_count,
        "lock_seconds": lock_seconds,
        "pattern": pattern,
        "after": after,
        "is_durable": is_durable,
        "max_channels": max_channels,
    }
    return _taken(conn, (sql.query("queue_take", schema), parameters), schema)


def take_from(
    conn: Connection,
    heads: Mapping[str, Head],
    max_count: int,
    lock_seconds: float = 30.0,
    schema: str = sql.DEFAULT_SCHEMA,
    *,
    is_durable: bool = True,
) -> list[TakenJob]:
    """Up to so many jobs from these channels, not looking before their heads."""
    priorities, run_ats, ids = zip(*heads.values(), strict=True)
    parameters = {
        "max_count": max_count,
        "lock_seconds": lock_seconds,
        "channels": list(heads),
        "priorities": list(priorities),
        "run_ats": list(run_ats),
        "ids": list(ids),
        "is_durable": is_durable,
    }
    return _taken(conn, (sql.query("queue_take_from", schema), parameters), schema)


def complete(
    conn: Connection,
    jobs: Sequence[TakenJob],
    results: Sequence[bytes | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """They are done. The results, encoded, stay with those that are kept."""
    return run(conn, completion(jobs, results, schema), schema)


def completion(
    jobs: Sequence[TakenJob],
    results: Sequence[bytes | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> Statement:
    none_is_kept = not any(job.is_kept for job in jobs)
    return _statement(
        "queue_complete", jobs, schema, results=_listed(results), none_is_kept=none_is_kept
    )


def defer(
    conn: Connection,
    jobs: Sequence[TakenJob],
    untils: Sequence[datetime | timedelta | None] | None = None,
    states: Sequence[bytes | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """Later: at a time, after a delay by the server's clock, or at once behind the others of its
    channel. A state, encoded, replaces the job's; None keeps it."""
    return run(conn, deferral(jobs, untils, states, schema), schema)


def deferral(
    jobs: Sequence[TakenJob],
    untils: Sequence[datetime | timedelta | None] | None = None,
    states: Sequence[bytes | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> Statement:
    untils = untils or [None] * len(jobs)
    return _statement(
        "queue_defer",
        jobs,
        schema,
        delays=[until if isinstance(until, timedelta) else None for until in untils],
        run_ats=[until if isinstance(until, datetime) else None for until in untils],
        states=_listed(states),
    )


def fail(
    conn: Connection,
    jobs: Sequence[TakenJob],
    delays: Sequence[timedelta | None] | None = None,
    errors: Sequence[str | None] | None = None,
    finals: Sequence[bool] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """These attempts failed: again after a delay, until `max_attempts` or one that is final."""
    return run(conn, failure(jobs, delays, errors, finals, schema), schema)


def failure(
    jobs: Sequence[TakenJob],
    delays: Sequence[timedelta | None] | None = None,
    errors: Sequence[str | None] | None = None,
    finals: Sequence[bool] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> Statement:
    return _statement(
        "queue_fail",
        jobs,
        schema,
        delays=_listed(delays),
        errors=_listed(errors),
        finals=_listed(finals),
    )


def give_back(
    conn: Connection, jobs: Sequence[TakenJob], schema: str = sql.DEFAULT_SCHEMA
) -> list[Verdict]:
    """Not begun: to the place in their channel that they had."""
    return run(conn, giving_back(jobs, schema), schema)


def giving_back(jobs: Sequence[TakenJob], schema: str = sql.DEFAULT_SCHEMA) -> Statement:
    return _statement("queue_give_back", jobs, schema)


def heartbeat(
    conn: Connection,
    jobs: Sequence[TakenJob],
    lock_seconds: float = 30.0,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """Still at work. Takes their progress along, and sets `lost` and `cancelled` on those that
    are."""
    progress = [job.raw_progress for job in jobs]
    statement = heartbeats(jobs, lock_seconds, progress, schema)
    verdicts = run(conn, statement, schema)
    for job, verdict in zip(jobs, verdicts, strict=True):
        job.lost = job.lost or verdict in (Verdict.STALE, Verdict.GONE)
        job.cancelled = job.cancelled or verdict is Verdict.CANCELLED
    return verdicts


def heartbeats(
    jobs: Sequence[TakenJob],
    lock_seconds: float,
    progress: Sequence[bytes | None],
    schema: str = sql.DEFAULT_SCHEMA,
) -> Statement:
    kept = list(progress) if any(item is not None for item in progress) else None
    return _statement("queue_heartbeat", jobs, schema, lock_seconds=lock_seconds, progress=kept)


def cancel(conn: Connection, ids: Sequence[int], schema: str = sql.DEFAULT_SCHEMA) -> list[Verdict]:
    """Somebody's jobs: a waiting one is finished, a running one is asked to stop (CANCELLED)."""
    return run(conn, (sql.query("queue_cancel", schema), {"ids": list(ids)}), schema)


def cancel_running(
    conn: Connection,
    jobs: Sequence[TakenJob],
    errors: Sequence[str | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """One's own jobs: they end here, not done and not to be tried again."""
    return run(conn, cancellation(jobs, errors, schema), schema)


def cancellation(
    jobs: Sequence[TakenJob],
    errors: Sequence[str | None] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> Statement:
    return _statement("queue_cancel_running", jobs, schema, errors=_listed(errors))


def retry(conn: Connection, ids: Sequence[int], schema: str = sql.DEFAULT_SCHEMA) -> list[Verdict]:
    """Dead jobs become ready, with no failures. STALE: it is not dead, or another job has its
    unique key."""
    return run(conn, (sql.query("queue_retry", schema), {"ids": list(ids)}), schema)


def run(conn: Connection, statement: Statement, schema: str = sql.DEFAULT_SCHEMA) -> list[Verdict]:
    """Say it on a connection, in the transaction that is open there."""
    with translated(schema):
        return [_VERDICTS[row[0]] for row in conn.execute(*statement).fetchall()]


async def run_async(
    conn: AsyncConnection, statement: Statement, schema: str = sql.DEFAULT_SCHEMA
) -> list[Verdict]:
    with translated(schema):
        found = await conn.execute(*statement)
        return [_VERDICTS[row[0]] for row in await found.fetchall()]


def _statement(name: str, jobs: Sequence[TakenJob], schema: str, **more: Any) -> Statement:
    held = {
        "ids": [job.id for job in jobs],
        "attempts": [job.attempt for job in jobs],
        "tokens": [job.token for job in jobs],
    }
    return sql.query(name, schema), held | more


def _listed(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _taken(conn: Connection, statement: Statement, schema: str) -> list[TakenJob]:
    with translated(schema), conn.cursor(binary=True) as cursor:
        return [TakenJob(*row) for row in cursor.execute(*statement).fetchall()]
