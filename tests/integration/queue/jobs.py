"""Looking at jobs, past the queue's own functions, and letting their locks expire."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from milepost.db import Connection, one


def status(conn: Connection, id_: int) -> str | None:
    row = conn.execute("select status::text from milepost.jobs where id = %s", [id_]).fetchone()
    return None if row is None else str(row[0])


def column(conn: Connection, id_: int, name: str) -> Any:
    row = conn.execute("select to_jsonb(j) from milepost.jobs as j where id = %s", [id_])
    return one(row.fetchone())[0][name]


def statuses(conn: Connection) -> Counter[str]:
    rows = conn.execute("select status::text from milepost.jobs").fetchall()
    return Counter(row[0] for row in rows)


def running(conn: Connection, channel: str) -> int:
    row = conn.execute(
        "select count(*) from milepost.jobs where status = 'running' and channel = %s", [channel]
    )
    return int(one(row.fetchone())[0])


def expire(conn: Connection, ids: Sequence[int]) -> None:
    """Their locks ran out an instant ago, and whoever takes next looks for such jobs."""
    conn.execute(
        "update milepost.jobs set locked_until = clock_timestamp() - interval '1 ms' "
        "where id = any(%s) and status = 'running'",
        [list(ids)],
    )
    duties_due(conn)


def duties_due(conn: Connection) -> None:
    conn.execute(
        "select setval('milepost.jobs_promote_at', 0), setval('milepost.jobs_recover_at', 0)"
    )
