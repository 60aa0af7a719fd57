"""What the tests of claims share: claimants, and what the tables say."""

from __future__ import annotations

from datetime import datetime

from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.processors.segments.claims import Claims
from milepost.records import Position
from tests.waiting import wait_until

KEY = CheckpointKey("shared")
START = Position(0, 0)


def claims(owner: str, seconds: float = 60.0) -> Claims:
    return Claims(KEY, owner, seconds, "milepost")


def owners(conn: Connection) -> dict[int, str | None]:
    return dict(
        conn.execute(
            "select id, case when claimed_until > clock_timestamp() then owner end "
            "from milepost.segments order by id"
        ).fetchall()
    )


def masks(conn: Connection) -> dict[int, int]:
    return dict(conn.execute("select id, mask from milepost.segments order by id").fetchall())


def epochs(conn: Connection) -> dict[int, int]:
    """Of the segments; a checkpoint's is always the same."""
    rows = conn.execute(
        "select s.id, s.epoch, c.epoch from milepost.segments as s "
        "join milepost.checkpoints as c on c.segment = s.id and c.processor = s.processor "
        "order by s.id"
    ).fetchall()
    assert all(mine == theirs for _, mine, theirs in rows)
    return {id_: epoch for id_, epoch, _ in rows}


def expire(conn: Connection, owner: str) -> None:
    """As if this owner had not been heard of for too long."""
    conn.execute(
        "update milepost.segments set claimed_until = clock_timestamp() - interval '1 s' "
        "where owner = %s",
        [owner],
    )
    conn.execute(
        "update milepost.instances set alive_until = clock_timestamp() - interval '1 s' "
        "where owner = %s",
        [owner],
    )


def expire_all(conn: Connection) -> None:
    """With nobody left to extend them, claims expire; not waited for, so that they may be as long
    as no slow machine loses."""
    for (owner,) in conn.execute("select owner from milepost.instances").fetchall():
        expire(conn, owner)


def positions(conn: Connection) -> dict[int, int]:
    return dict(
        conn.execute("select segment, position from milepost.checkpoints order by 1").fetchall()
    )


def ends(conn: Connection) -> dict[int, datetime]:
    return dict(conn.execute("select id, claimed_until from milepost.segments").fetchall())


def wait_until_extended(conn: Connection) -> None:
    """Until all claims were extended by a beat that began after now: the second one. Their end is
    not waited for, so that they may be as long as no slow machine loses."""
    for _ in range(2):
        before = ends(conn)
        wait_until(lambda before=before: all(e > before[i] for i, e in ends(conn).items()))  # type: ignore[misc]
