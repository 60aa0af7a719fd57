"""The archive under roles: one that archives, those that read and look, and those that may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost import Milepost
from milepost.archive import retention_state
from milepost.db import Connection
from milepost.errors import NotOwner, NotPermitted
from milepost.runtime import Timing
from tests.integration.archive.archiving import (
    archive_all,
    archiver_of,
    everything,
    files,
    left,
    numbered,
    running,
)
from tests.integration.cli.command import Cli
from tests.roles import Roles
from tests.waiting import wait_until


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def test_a_role_that_archives(mp: Milepost, conn: Connection, roles: Roles, place: str) -> None:
    """It reads and lists files, and cannot remove; who reads needs no more than before."""
    numbered(conn, 20)
    before = everything(mp)
    mp.retention(keep_messages=0, archive=place)
    archiving = Milepost(roles.make("archive"))
    archive_all(archiving)
    assert files(conn)[-1].messages == 20
    with pytest.raises(NotOwner):
        archiving.remove_old()
    with pytest.raises(NotOwner):
        archiving.retention(keep_messages=0, no_archive=True)
    assert mp.remove_old().number == 20
    assert everything(Milepost(roles.make("read"))) == before


def test_it_runs_beside_a_processor_of_the_same_role(
    conn: Connection, mp: Milepost, roles: Roles, place: str
) -> None:
    mp.retention(archive=place)
    archiving = Milepost(roles.make("archive"))
    archiving.processor("p")(lambda *_: None).run(until="caught_up")
    with running(archiver_of(archiving)):
        query = "select state from milepost.processors where name = 'milepost.archive'"
        wait_until(lambda: conn.execute(query).fetchall() == [("running",)])


def test_a_role_that_processes_may_not_archive(
    mp: Milepost, conn: Connection, roles: Roles, place: str
) -> None:
    numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    with pytest.raises(NotPermitted, match="--to archive"):
        archive_all(Milepost(roles.make("process")))
    assert (files(conn), len(left(conn))) == ([], 20)


@pytest.mark.parametrize("order", ["append"])
def test_roles_that_look(mp: Milepost, conn: Connection, roles: Roles, place: str) -> None:
    numbered(conn, 20)
    mp.retention(keep_messages=10, archive=place)
    archive_all(mp)
    metrics, operate = Cli(roles.make("metrics")), Cli(roles.make("operate"))
    assert metrics.run("archive", "--json").document()[0]["messages"] == 10
    listed = metrics.run("processors", "--json").document()
    assert [(each["name"], each["lag_messages"]) for each in listed] == [("milepost.archive", 0)]
    assert f"archive  {place}, up to " in metrics.run("status").stdout
    checks = metrics.run("doctor", "--json").document()["checks"]
    assert [check["state"] for check in checks if check["name"] == "archive"] == ["ok"]
    assert "milepost.archive" in metrics.run("retention").stdout
    assert operate.run("processors", "pause", "milepost.archive").code == 0
    assert operate.run("retention", "set", "--keep", "1d", "--no-archive").code == 1
    assert retention_state(conn).policy is not None
