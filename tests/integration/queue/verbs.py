"""The verbs of the queue, as statements for one connection: one verdict for each job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from milepost.db import NO_RESET, Connection
from milepost.queue import admin
from milepost.queue.verbs import extend, run, statement
from milepost.records import TakenJob, Verdict

SCHEMA = "milepost"


def complete(
    conn: Connection, jobs: Sequence[TakenJob], results: Sequence[bytes | None] | None = None
) -> list[Verdict]:
    none_is_kept = not any(job.is_kept for job in jobs)
    return _run(conn, "queue_complete", jobs, results=results, none_is_kept=none_is_kept)


def defer(
    conn: Connection,
    jobs: Sequence[TakenJob],
    untils: Sequence[datetime | timedelta | None] | None = None,
    states: Sequence[bytes | None] | None = None,
) -> list[Verdict]:
    untils = untils or [None] * len(jobs)
    return _run(
        conn,
        "queue_defer",
        jobs,
        delays=[until if isinstance(until, timedelta) else None for until in untils],
        run_ats=[until if isinstance(until, datetime) else None for until in untils],
        states=states,
    )


def fail(
    conn: Connection,
    jobs: Sequence[TakenJob],
    delays: Sequence[timedelta | None] | None = None,
    errors: Sequence[str | None] | None = None,
    finals: Sequence[bool] | None = None,
) -> list[Verdict]:
    return _run(conn, "queue_fail", jobs, delays=delays, errors=errors, finals=finals)


def give_back(conn: Connection, jobs: Sequence[TakenJob]) -> list[Verdict]:
    return _run(conn, "queue_give_back", jobs, delays=None)


def cancel_running(conn: Connection, jobs: Sequence[TakenJob]) -> list[Verdict]:
    return _run(conn, "queue_cancel_running", jobs, errors=None)


def heartbeat(
    conn: Connection, jobs: Sequence[TakenJob], lock_seconds: float = 30.0
) -> list[Verdict]:
    return extend(conn, jobs, lock_seconds, [job.raw_progress for job in jobs])


def cancel(conn: Connection, ids: Sequence[int]) -> list[Verdict]:
    return admin.cancel(conn, SCHEMA, ids)


def retry(conn: Connection, ids: Sequence[int]) -> list[Verdict]:
    return admin.retry(conn, SCHEMA, ids)


def _run(conn: Connection, query: str, jobs: Sequence[TakenJob], **more: Any) -> list[Verdict]:
    return run(conn, statement(query, jobs, SCHEMA, **NO_RESET, **more), SCHEMA)
