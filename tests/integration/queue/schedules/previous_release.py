"""What the previous release does with schedules, by its own statements: they are jobs."""

from __future__ import annotations

from typing import Any

import orjson
from psycopg import Rollback

from milepost import Job, Repeat, put
from milepost.db import Connection, one
from milepost.queue.schedules import Times
from tests.integration.queue.schedules.scheduling import EVERY_HOUR

OLD = "milepost.schedules"
PUT = """
select milepost.put(%(channel)s, %(content)b, %(run_at)s, 0, 2147483647, %(name)s, %(state)b)
"""
TAKE = """
select id, attempt, token from milepost.take_from(array['milepost.schedules'], 1)
"""
DEFER = """
select milepost.defer(
  array[%(id)s], array[%(attempt)s], run_ats => array[%(run_at)s],
  tokens => array[%(token)s::bigint]
)::text
"""
OLD_JOBS = """
select unique_key, run_at, convert_from(state, 'UTF8')::json #>> '{}' from milepost.jobs
where channel = 'milepost.schedules'
"""


def document(times: Times, content: str = "null") -> bytes:
    """As the previous release writes it, for a job without anything else."""
    when = (
        {"every_seconds": times.every.total_seconds()}
        if isinstance(times, Repeat)
        else {"cron": times.expression, "timezone": times.timezone}
    )
    job = {
        "channel": "reports", "content": content, "run_at": None, "delay_seconds": None,
        "priority": 0, "max_attempts": 25, "unique_key": None, "state": None, "keep_seconds": None,
    }  # fmt: skip
    return orjson.dumps(when | job)


def old_register(conn: Connection, times: Times = EVERY_HOUR, name: str = "hourly") -> None:
    """What a process of the previous release does when it starts."""
    now = one(conn.execute("select clock_timestamp()").fetchone())[0]
    parameters = {
        "channel": OLD, "content": document(times), "run_at": times.next(now, now), "name": name,
        "state": orjson.dumps(now.isoformat()),
    }  # fmt: skip
    conn.execute(PUT, parameters)


def old_tick(conn: Connection, times: Times = EVERY_HOUR) -> bool:
    """What it does when it looks for jobs: whether it has put a tick. In one transaction but for
    the take, rolled back unless the verdict is that the job was still its own."""
    found = conn.execute(TAKE).fetchone()
    return found is not None and old_end(conn, found, times)


def old_end(conn: Connection, taken: Any, times: Times = EVERY_HOUR) -> bool:
    now = one(conn.execute("select clock_timestamp()").fetchone())[0]
    with conn.transaction() as transaction:
        put(conn, Job("reports"))
        facts = {"id": taken[0], "attempt": taken[1], "token": taken[2]}
        verdict = conn.execute(DEFER, facts | {"run_at": times.next(now, now)}).fetchone()
        is_done: bool = verdict == ("done",)
        if not is_done:
            raise Rollback(transaction)
    return is_done


def old_jobs(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute(OLD_JOBS.encode()).fetchall()


def make_old_due(conn: Connection, seconds: float = 0.0) -> None:
    """As if its time had come, so many seconds ago."""
    conn.execute(
        "update milepost.jobs set status = 'ready', "
        "run_at = clock_timestamp() - make_interval(secs => %s) where channel = %s",
        [seconds, OLD],
    )
