"""The verbs of the queue: take jobs, and say how their attempts ended, many in one statement.

Each statement names its jobs with their attempt and token, the fence, and answers with one verdict
for each job, in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_never

from milepost import sql
from milepost.db import NO_RESET, fetch_all, translated
from milepost.queue.outcome import Ending, Kind
from milepost.records import TakenJob, Verdict

if TYPE_CHECKING:
    from milepost.db import AsyncConnection, Connection, SessionReset, Statement
    from milepost.queue.worker.rotation import Head

_VERDICTS = {verdict.value: verdict for verdict in Verdict}


def take(
    conn: Connection,
    max_count: int,
    lock_seconds: float = 30.0,
    pattern: str = "*",
    after: str | None = None,
    *,
    schema: str = sql.DEFAULT_SCHEMA,
    is_durable: bool = True,
    max_channels: int = 100,
    with_duties: bool = True,
    is_ahead: bool = False,
) -> list[TakenJob]:
    """Up to so many jobs over the channels of a pattern, beginning after a channel. `is_ahead`:
    they have not begun yet; the server is told later which have."""
    shared = {
        "max_count": max_count,
        "lock_seconds": lock_seconds,
        "is_durable": is_durable,
        "is_ahead": is_ahead,
    }
    if not pattern.endswith("*"):
        # There is no rotation, and so less to do.
        named = {"channel": pattern, "with_duties": with_duties}
        return _taken(conn, "queue_take_named", schema, shared | named)
    rotation = {"pattern": pattern, "after": after, "max_channels": max_channels}
    return _taken(conn, "queue_take", schema, shared | rotation)


def take_from(
    conn: Connection,
    heads: Mapping[str, Head],
    max_count: int,
    lock_seconds: float = 30.0,
    *,
    schema: str = sql.DEFAULT_SCHEMA,
    is_durable: bool = True,
    is_ahead: bool = False,
    with_duties: bool = True,
) -> list[TakenJob]:
    """Up to so many jobs from these channels. Before their heads, only more urgent ones are looked
    for."""
    priorities, run_ats, ids = zip(*heads.values(), strict=True)
    parameters = {
        "max_count": max_count,
        "lock_seconds": lock_seconds,
        "channels": list(heads),
        "priorities": list(priorities),
        "run_ats": list(run_ats),
        "ids": list(ids),
        "is_durable": is_durable,
        "is_ahead": is_ahead,
        "with_duties": with_duties,
    }
    return _taken(conn, "queue_take_from", schema, parameters)


def complete(
    conn: Connection, jobs: Sequence[TakenJob], *, schema: str = sql.DEFAULT_SCHEMA
) -> list[Verdict]:
    """They are done, without results."""
    return run(conn, _completing(jobs, None, schema), schema)


def extend(
    conn: Connection,
    jobs: Sequence[TakenJob],
    lock_seconds: float,
    progress: Sequence[bytes | None],
    *,
    begun: Sequence[bool] | None = None,
    schema: str = sql.DEFAULT_SCHEMA,
) -> list[Verdict]:
    """They are still worked on: their locks are extended, and their progress is stored. `begun`:
    which of them a handler has begun."""
    news = list(progress) if any(item is not None for item in progress) else None
    beat = statement(
        "queue_heartbeat",
        jobs,
        schema,
        lock_seconds=lock_seconds,
        progress=news,
        begun=None if begun is None else list(begun),
    )
    return run(conn, beat, schema)


def mark_begun(
    conn: Connection, jobs: Sequence[TakenJob], *, schema: str = sql.DEFAULT_SCHEMA
) -> list[Verdict]:
    """Each is about to begin, or has begun at its `begun_at`."""
    return run(conn, marking(jobs, schema), schema)


async def mark_begun_async(conn: AsyncConnection, jobs: Sequence[TakenJob], schema: str) -> None:
    with translated(schema):
        await conn.execute(*marking(jobs, schema))


def marking(jobs: Sequence[TakenJob], schema: str) -> Statement:
    now = time.monotonic()
    ago = [None if job.begun_at is None else timedelta(seconds=now - job.begun_at) for job in jobs]
    return statement("queue_mark_begun", jobs, schema, begun_ago=ago)


def cancelled(
    conn: Connection, ids: Sequence[int], *, schema: str = sql.DEFAULT_SCHEMA
) -> set[int]:
    """Which of these running jobs were asked to stop."""
    return {row[0] for row in fetch_all(conn, schema, "queue_cancelled", ids=list(ids))}


def settle(
    conn: Connection, endings: Sequence[Ending], schema: str, reset: SessionReset | None = None
) -> Iterator[tuple[Ending, Verdict]]:
    """Say how attempts ended: one statement for all of one kind. The verdicts come in any order. In
    the transaction of a handler that returned, the first statement resets its session."""
    for kind, same in _by_kind(endings):
        statement, reset = _settling(kind, same, schema, reset), None
        yield from zip(same, run(conn, statement, schema), strict=True)


async def settle_async(
    conn: AsyncConnection, endings: Sequence[Ending], schema: str, reset: SessionReset
) -> list[tuple[Ending, Verdict]]:
    settled: list[tuple[Ending, Verdict]] = []
    for number, (kind, same) in enumerate(_by_kind(endings)):
        with translated(schema):
            found = await conn.execute(*_settling(kind, same, schema, None if number else reset))
            verdicts = [_VERDICTS[row[0]] for row in await found.fetchall()]
        settled += zip(same, verdicts, strict=True)
    return settled


def _by_kind(endings: Sequence[Ending]) -> Iterator[tuple[Kind, Sequence[Ending]]]:
    if len(endings) == 1:
        yield endings[0].kind, endings
        return
    for kind in Kind:
        if same := [ending for ending in endings if ending.kind is kind]:
            yield kind, same


def _settling(
    kind: Kind, endings: Sequence[Ending], schema: str, reset: SessionReset | None = None
) -> Statement:
    session = NO_RESET if reset is None else reset.parameters()
    jobs = [ending.job for ending in endings]
    errors = [ending.error for ending in endings]
    match kind:
        case Kind.COMPLETE:
            return _completing(jobs, [ending.result for ending in endings], schema, session)
        case Kind.DEFER:
            return statement(
                "queue_defer",
                jobs,
                schema,
                delays=[e.until if isinstance(e.until, timedelta) else None for e in endings],
                run_ats=[e.until if isinstance(e.until, datetime) else None for e in endings],
                states=[ending.state for ending in endings],
                **session,
            )
        case Kind.FAIL:
            delays, finals = [e.delay for e in endings], [e.is_final for e in endings]
            return statement(
                "queue_fail", jobs, schema, delays=delays, errors=errors, finals=finals
            )
        case Kind.CANCEL:
            return statement("queue_cancel_running", jobs, schema, errors=errors, **session)
        case Kind.GIVE_BACK:
            return statement("queue_give_back", jobs, schema, delays=[e.delay for e in endings])
    assert_never(kind)


def _completing(
    jobs: Sequence[TakenJob],
    results: list[bytes | None] | None,
    schema: str,
    session: dict[str, Any] = NO_RESET,
) -> Statement:
    """The results, encoded, stay with those jobs that are kept."""
    if len(jobs) == 1:
        job, result = jobs[0], results[0] if results else None
        one = {"id": job.id, "attempt": job.attempt, "token": job.token, "result": result}
        return sql.query("queue_complete_one", schema), one | session
    none_is_kept = not any(job.is_kept for job in jobs)
    return statement(
        "queue_complete", jobs, schema, results=results, none_is_kept=none_is_kept, **session
    )


def statement(query: str, jobs: Sequence[TakenJob], schema: str, **more: Any) -> Statement:
    fence = {
        "ids": [job.id for job in jobs],
        "attempts": [job.attempt for job in jobs],
        "tokens": [job.token for job in jobs],
    }
    return sql.query(query, schema), fence | more


def run(conn: Connection, statement: Statement, schema: str) -> list[Verdict]:
    """In the transaction that is open on the connection, if any."""
    with translated(schema):
        return [_VERDICTS[row[0]] for row in conn.execute(*statement).fetchall()]


def _taken(conn: Connection, query: str, schema: str, parameters: dict[str, Any]) -> list[TakenJob]:
    with translated(schema), conn.cursor(binary=True) as cursor:
        found = cursor.execute(sql.query(query, schema), parameters)
        return [TakenJob(*row) for row in found.fetchall()]
