"""What a run does beside its members where there is a policy: archive, and remove."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from milepost import Milepost, RecordedMessage, db
from milepost.archive import PolicyWatch, Remover
from milepost.db import Connection
from milepost.runtime import Group, Timing
from milepost.sql import LogOrder
from tests.integration.archive.archiving import (
    Running,
    archiver_of,
    everything,
    files,
    left,
    made_older,
    numbered,
)
from tests.roles import Roles, roles_in
from tests.waiting import wait_until


@pytest.fixture
def order() -> LogOrder:
    return "append"


@pytest.fixture
def timing() -> Timing:
    return Timing(
        orders_seconds=0.05, policy_seconds=0.05, archive_seconds=0.05, removal_seconds=0.05
    )


@pytest.fixture
def roles(url: str) -> Iterator[Roles]:
    with roles_in(url) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """As a processor that has handled everything."""


@contextmanager
def run_of(mp: Milepost) -> Iterator[Group]:
    """As `mp.run()`, which only a signal would end."""
    group = Group([*mp.members(), *mp._duties_when_wanted()], is_fail_fast=True)
    mp._runtime.check(mp.members(), group.stop, mp._runtime.part(PolicyWatch).look)
    thread = Running(lambda _stop: group.run())
    try:
        yield group
    finally:
        group.stop.set()
        thread.end()


def test_a_run_archives_and_removes(mp: Milepost, conn: Connection, place: str) -> None:
    mp.processor("p")(ignore)
    positions = numbered(conn, 20)
    before = everything(mp)
    mp.retention(keep_messages=5, archive=place)
    mp.run(until="caught_up")
    assert files(conn)[-1].last == positions[14]
    mp.run(until="caught_up")
    assert left(conn) == positions[15:]
    assert everything(mp) == before


def test_a_run_without_a_policy_does_neither(mp: Milepost, conn: Connection) -> None:
    mp.processor("p")(ignore)
    numbered(conn, 20)
    mp.run(until="caught_up")
    query = "select name from milepost.processors"
    assert conn.execute(query).fetchall() == [("p",)]
    assert len(left(conn)) == 20


def test_a_policy_that_is_set_later_is_noticed(mp: Milepost, conn: Connection, place: str) -> None:
    mp.processor("p")(ignore)
    with run_of(mp):
        positions = numbered(conn, 20)
        made_older(conn, positions[:10], "3 hours")
        mp.retention(keep_messages=15, no_archive=True)
        wait_until(lambda: left(conn) == positions[5:])
        mp.retention(keep=timedelta(hours=1), archive=place)
        wait_until(lambda: left(conn) == positions[10:])
        (file,) = files(conn)
        assert (file.after, file.last) == (positions[4], positions[9])


def test_parts_can_be_run_by_name(mp: Milepost, conn: Connection, place: str) -> None:
    positions = numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    assert [member.name for member in mp.members(["archive", "retention"])] == [
        "milepost.archive",
        "milepost.retention",
    ]
    mp.run(["retention"], until="caught_up")
    assert left(conn) == positions
    mp.run(["archive"], until="caught_up")
    mp.run(["retention"], until="caught_up")
    assert left(conn) == []


def test_a_processor_of_the_same_name_is_what_is_run(mp: Milepost) -> None:
    archive = mp.processor("archive")(ignore)
    assert mp.members(["archive"]) == [archive]


def test_one_process_removes_at_a_time(mp: Milepost, url: str, conn: Connection) -> None:
    first, second = (Remover(Milepost(url, timing=Timing())._runtime) for _ in range(2))
    numbered(conn, 5)
    mp.retention(keep_messages=0, no_archive=True)
    assert [first._claims(conn), second._claims(conn), first._claims(conn)] == [True, False, False]
    conn.execute("update milepost.retention set removal_at = removal_at - interval '61 s'")
    assert [second._claims(conn), first._claims(conn)] == [True, False]
    mp.retention(archive="/nowhere")
    conn.execute("update milepost.retention set removal_at = null")
    assert not first._claims(conn)


def test_removing_is_repeated_and_survives_a_lost_server(mp: Milepost, conn: Connection) -> None:
    mp.retention(keep_messages=0, no_archive=True)
    remover = Running(lambda stop: Remover(mp._runtime).run("stopped", stop))
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and "
        "datname = current_database() and application_name = 'milepost retention'"
    )
    for _ in range(3):
        numbered(conn, 20)
        wait_until(lambda: left(conn) == [])
        conn.execute(end)
    remover.end()


def test_a_role_that_may_not_is_told_once(
    mp: Milepost, conn: Connection, roles: Roles, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As an application that only processes: it goes on, and leaves both to others."""
    roles.run("grant select on milepost.retention to {}", url := roles.make("process"))
    numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    processing = Milepost(url)
    processor = processing.processor("p")(ignore)
    with caplog.at_level(logging.WARNING), run_of(processing):
        wait_until(lambda: len(said(caplog)) == 2)
        last = numbered(conn, 1)[-1]
        processor.wait_for(last)
    assert said(caplog) == [
        f"member=milepost.{name} does not run here: this role may not do it "
        "(docs/retention.md says which may)"
        for name in ("archive", "retention")
    ]
    processing.run(until="caught_up")
    assert (files(conn), len(left(conn))) == ([], 21)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return sorted(r.getMessage() for r in caplog.records if "does not run here" in r.getMessage())


def test_a_role_that_knows_of_no_policy_has_nothing_to_do(
    mp: Milepost, conn: Connection, roles: Roles, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one whose privileges are of a release without it."""
    numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    url = roles.make("process")
    roles.run("revoke execute on function milepost.retention_duties() from {}", url)
    processing = Milepost(url)
    processor = processing.processor("p")(ignore)
    with caplog.at_level(logging.WARNING), run_of(processing):
        processor.wait_for(numbered(conn, 1)[-1])
    assert said(caplog) == []


def test_a_small_budget_is_told_once_too(
    mp: Milepost, url: str, conn: Connection, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    mp.retention(archive=place)
    small = Milepost(url, max_connections=2)
    processor = small.processor("p")(ignore)
    with caplog.at_level(logging.WARNING), run_of(small):
        processor.wait_for(numbered(conn, 20)[-1])
        wait_until(lambda: len(said(caplog)) == 1)
    assert "max_connections=5" in said(caplog)[0]


def test_an_archiver_that_waits_for_more_is_asked_to_write_now(
    mp: Milepost, url: str, conn: Connection, place: str
) -> None:
    """`milepost archive run --once` beside `milepost run`: what retention.md says to do."""
    mp.processor("p")(ignore)
    mp.retention(keep=timedelta(hours=1), archive=place)
    positions = numbered(conn, 20)
    made_older(conn, positions[:10], "61 minutes")
    with run_of(mp):
        wait_until(lambda: owners(conn) == 1)
        assert files(conn) == []
        archiver_of(Milepost(url)).run("caught_up")
        assert [file.last for file in files(conn)] == [positions[9]]


def owners(conn: Connection) -> int:
    query = "select count(*) from milepost.checkpoints where processor = 'milepost.archive'"
    return int(db.one(conn.execute(query).fetchone())[0])
