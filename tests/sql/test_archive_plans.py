"""What is asked every few seconds costs little where most messages are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest

from milepost import Milepost
from milepost.db import Connection, one

FILL = """
insert into milepost.messages (type, data)
select 'T', json_build_object('text', repeat('x', 200)) from generate_series(1, 50000)
"""
PLAN = "milepost.plan_archive(10000, 1000, interval '1 hour', false)"
FEW = 60  # of some 1,900 in the table and its index


@pytest.fixture
def filled(mp: Milepost, conn: Connection) -> Connection:
    conn.execute(FILL)
    conn.execute("vacuum analyze milepost.messages")
    return conn


def blocks(conn: Connection, function: str) -> int:
    """Read by a call of a function, once its plans are made."""
    statement = f"explain (analyze, buffers, format json) select * from {function}".encode()  # noqa: S608
    conn.execute(statement)
    ((plan,),) = one(conn.execute(statement).fetchone())
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize(
    "policy",
    [
        {"archive_after": timedelta(hours=1)},
        {"keep": timedelta(hours=1)},
        {"keep_messages": 60_000},
        {"keep": timedelta(hours=1), "keep_messages": 10},
    ],
)
def test_to_look_for_what_to_archive(
    mp: Milepost, filled: Connection, policy: dict[str, timedelta | int]
) -> None:
    mp.retention(archive="/nowhere", **policy)  # type: ignore[arg-type]
    assert blocks(filled, PLAN) < FEW


def test_a_whole_file_is_planned_by_the_primary_key_alone(mp: Milepost, filled: Connection) -> None:
    filled.execute("update milepost.messages set recorded_at = recorded_at - interval '3 hours'")
    filled.execute("vacuum milepost.messages")
    mp.retention(archive="/nowhere", archive_after=timedelta(hours=1))
    assert blocks(filled, PLAN) < 3 * FEW
    assert len(filled.execute(f"select from {PLAN}".encode()).fetchall()) == 1


def test_what_may_be_removed_is_found_from_the_oldest_message_on(
    mp: Milepost, filled: Connection
) -> None:
    mp.retention(keep=timedelta(hours=1), no_archive=True)
    assert blocks(filled, "milepost.retention_limit(1000000)") < FEW


def test_the_lag_of_the_archiver(mp: Milepost, filled: Connection) -> None:
    mp.retention(archive="/nowhere", archive_after=timedelta(hours=1))
    assert blocks(filled, "milepost.archive_limit(1000)") < FEW
