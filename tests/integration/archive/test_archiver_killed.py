"""An archiver that is killed, fenced or cut off leaves a log that every reader reads as a whole."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from threading import Event

import pytest

from milepost import Milepost
from milepost.archive import FileSize
from milepost.archive.filing import Filing
from milepost.archive.plan import Plan, next_file
from milepost.db import Connection
from milepost.errors import ArchiveFileMissing
from milepost.processors import Conflict
from milepost.runtime import Timing
from tests import zygote
from tests.integration.archive.archiving import (
    archive_all,
    archiver_of,
    everything,
    files,
    left,
    names_in,
    numbered,
    running,
)
from tests.waiting import wait_until

PROGRAM = "tests.integration.archive.killed_archiver"
STORE_WITHOUT_FENCE = "c.epoch = store_checkpoint.epoch"


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def kill(url: str, moment: str) -> None:
    code, *said = zygote.run(["python", "-m", PROGRAM, url, moment], os.environ)
    assert code == -signal.SIGKILL, said


@pytest.mark.parametrize("moment", ["writing", "written"])
def test_what_a_killed_archiver_leaves_is_an_orphan(
    mp: Milepost, url: str, conn: Connection, place: Path, moment: str
) -> None:
    positions = numbered(conn, 30, size=400_000)
    before = everything(mp)
    mp.retention(keep_messages=0, archive=str(place))
    kill(url, moment)
    orphans = names_in(place)
    assert len(orphans) == 1
    assert files(conn) == []
    assert mp.remove_old().number == 0
    archive_all(mp)
    assert files(conn)[-1].last == positions[-1]
    assert files(conn)[-1].epoch == 2
    assert set(orphans).isdisjoint(file.name for file in files(conn))
    assert mp.remove_old().number == 30
    assert everything(mp) == before


def test_a_row_before_its_file_is_a_log_that_cannot_be_read(
    mp: Milepost, url: str, conn: Connection, place: Path
) -> None:
    """What the test above would see if the order of the two were wrong."""
    numbered(conn, 30)
    mp.retention(keep_messages=0, archive=str(place))
    kill(url, "committed_first")
    assert len(files(conn)) == 1
    assert mp.remove_old().number == 30
    with pytest.raises(ArchiveFileMissing, match="is not there"):
        everything(mp)


def zombie_of(mp: Milepost, conn: Connection) -> tuple[Filing, Plan]:
    """A session that has begun, has planned a file, and then was held for a while."""
    filing = Filing.begin(conn, mp._runtime, "zombie", Event())
    plan = next_file(conn, "milepost", FileSize(), is_last=True)
    assert plan is not None
    return filing, plan


def test_a_zombie_cannot_commit(mp: Milepost, conn: Connection, place: Path) -> None:
    """Another has begun, even if that has not written anything yet."""
    numbered(conn, 30)
    before = everything(mp)
    mp.retention(keep_messages=0, archive=str(place))
    zombie, plan = zombie_of(mp, conn)
    other, same = zombie_of(mp, conn)
    assert plan == same
    file = zombie.write(plan, 1 << 30)
    with pytest.raises(Conflict, match="fenced"):
        zombie.commit(conn, file)
    assert files(conn) == []
    other.commit(conn, other.write(same, 1 << 30))
    with pytest.raises(Conflict, match="fenced"):
        zombie.commit(conn, file)
    assert len(files(conn)) == 1
    assert len(names_in(place)) == 2
    zombie.close()
    other.close()
    mp.remove_old()
    assert everything(mp) == before


def test_without_the_fence_a_zombie_commits(mp: Milepost, conn: Connection, place: Path) -> None:
    """What the test above would see."""
    numbered(conn, 30)
    mp.retention(archive=str(place))
    definition = "select pg_get_functiondef('milepost.store_checkpoint'::regproc)"
    ((text,),) = conn.execute(definition).fetchall()
    assert STORE_WITHOUT_FENCE in text
    conn.execute(text.replace(STORE_WITHOUT_FENCE, "true").encode())
    zombie, plan = zombie_of(mp, conn)
    other, _ = zombie_of(mp, conn)
    zombie.commit(conn, zombie.write(plan, 1 << 30))
    zombie.close()
    other.close()
    assert len(files(conn)) == 1


def test_an_archiver_that_was_fenced_stands_by_and_works_again(
    mp: Milepost, conn: Connection, place: Path
) -> None:
    mp.retention(archive=str(place))
    with running(archiver_of(mp, FileSize(least_messages=1))):
        numbered(conn, 10)
        wait_until(lambda: len(files(conn)) == 1)
        zombie = Filing.begin(conn, mp._runtime, "another", Event())
        numbered(conn, 10)
        wait_until(lambda: len(files(conn)) == 2)
        assert [file.epoch for file in files(conn)] == [1, 3]
        zombie.close()


def test_a_session_that_is_ended_begins_again(mp: Milepost, conn: Connection, place: Path) -> None:
    """Its turn, its reading and its commits: whatever the server ends."""
    mp.retention(keep_messages=0, archive=str(place))
    end = (
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
        "and datname = current_database() and application_name ~ '^milepost (turns|milepost.arch)'"
    )
    with running(archiver_of(mp, FileSize(least_messages=1, file_messages=50))):
        positions = numbered(conn, 100)
        # A connection that is lost before the first session has begun is an error.
        wait_until(lambda: files(conn))
        for _ in range(5):
            conn.execute(end)
            positions += numbered(conn, 100)
        wait_until(lambda: files(conn) and files(conn)[-1].last == positions[-1])
    before = everything(mp)
    assert [message.position for message in before] == positions
    mp.remove_old()
    assert left(conn) == []
    assert everything(mp) == before


def test_a_stop_ends_a_file_that_is_being_written(
    mp: Milepost, conn: Connection, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two batches, however many follow."""
    numbered(conn, 60, size=400_000)
    mp.retention(archive=str(place))
    reached, check = Event(), Filing._refuse_stopped

    def waiting(filing: Filing) -> None:
        reached.set()
        filing.stop.wait(30)
        check(filing)

    monkeypatch.setattr(Filing, "_refuse_stopped", waiting)
    with running(archiver_of(mp, FileSize(least_messages=1))) as archiver:
        assert reached.wait(30)
        archiver.end()
    assert (files(conn), names_in(place)) == ([], [])
