"""A schedule through an upgrade and back: whichever release registers it last ticks it, and every
tick is put once. Its times stay those of its first registration."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from milepost import db
from milepost.db import Connection
from tests.integration.upgrade.test_rolling import (
    PATIENCE_SECONDS,
    Fleet,
    Program,
    check_for_trouble,
    fleet_of,
    old_source,
)
from tests.waiting import wait_until

__all__ = ["old_source"]  # a fixture
EVERY = timedelta(seconds=0.5)
SCHEDULING = "scheduling:mp"
# Of the release before; of this one.
TIMES = {
    "old": """
    select (convert_from(state, 'UTF8')::json #>> '{}')::timestamptz, run_at from milepost.jobs
    where channel = 'milepost.schedules'
    """,
    "new": "select begun_at, next_at from milepost.schedules",
}


def puts(conn: Connection) -> int:
    row = conn.execute("select count(*) from milepost.jobs where channel = 'ticks'").fetchone()
    return int(db.one(row)[0])


def is_with(conn: Connection, release: str) -> bool:
    return conn.execute(TIMES[release].encode()).fetchone() is not None


def wait_for_ticks(conn: Connection, release: str) -> None:
    """After the registration, so that they are its own."""
    wait_until(lambda: is_with(conn, release), PATIENCE_SECONDS)
    before = puts(conn)
    wait_until(lambda: puts(conn) >= before + 3, PATIENCE_SECONDS)


def run(fleet: Fleet, conn: Connection, release: str) -> Program:
    program = fleet.run(release, SCHEDULING)
    wait_for_ticks(conn, release)
    return program


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_schedule_goes_to_the_new_release_and_back_and_no_tick_is_put_twice(
    empty_database: str, old_source: Path, tmp_path: Path
) -> None:
    with (
        db.connect(empty_database) as conn,
        fleet_of(empty_database, tmp_path, old_source) as fleet,
    ):
        fleet.migrate("old")
        first = run(fleet, conn, "old")
        fleet.migrate("new")
        wait_for_ticks(conn, "old")  # by old code on the new schema
        new = run(fleet, conn, "new")
        first.stop()
        wait_for_ticks(conn, "new")
        back = run(fleet, conn, "old")  # while the new one runs
        run(fleet, conn, "new").stop()
        wait_for_ticks(conn, "new")  # by the new one that runs on
        second = run(fleet, conn, "old")
        new.stop()
        back.stop()
        wait_for_ticks(conn, "old")  # gone back
        last = run(fleet, conn, "new")
        second.stop()
        wait_for_ticks(conn, "new")
        last.stop()
        ((begun, following),) = conn.execute(TIMES["new"].encode()).fetchall()
        assert puts(conn) == (following - begun) // EVERY - 1
    check_for_trouble(fleet.programs)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_what_a_killed_process_of_the_release_before_leaves_is_taken_over(
    empty_database: str, old_source: Path, tmp_path: Path
) -> None:
    """By a scheduler that runs already, and does not register it again."""
    with (
        db.connect(empty_database) as conn,
        fleet_of(empty_database, tmp_path, old_source) as fleet,
    ):
        fleet.migrate("old")
        fleet.migrate("new")
        new = run(fleet, conn, "new")
        old = run(fleet, conn, "old")
        old.process.kill()
        wait_for_ticks(conn, "new")
        new.stop()
        ((begun, following),) = conn.execute(TIMES["new"].encode()).fetchall()
        assert puts(conn) <= (following - begun) // EVERY - 1
