"""The archiver: what it writes and when, who works, and what happens if the place fails."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from milepost import Message, Milepost, Position, append
from milepost.archive import FileSize, Policy, forget_files, remove_old, set_policy
from milepost.db import Connection, one
from milepost.errors import ArchiveGap, ArchiveUnwritable
from milepost.runtime import Timing
from tests.integration.archive.archiving import (
    archive_all,
    archiver_of,
    everything,
    files,
    left,
    made_older,
    names_in,
    numbered,
    running,
)
from tests.waiting import wait_until

HOUR = timedelta(hours=1)
NOW = FileSize(least_messages=1)


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05, archive_seconds=0.02, report_seconds=0.1)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def state(conn: Connection) -> str:
    query = "select state from milepost.processors where name = 'milepost.archive'"
    row = conn.execute(query).fetchone()
    return "" if row is None else str(row[0])


def test_everything_is_archived_in_files_of_a_size(
    mp: Milepost, conn: Connection, place: Path
) -> None:
    positions = numbered(conn, 250)
    before = everything(mp)
    mp.retention(archive=str(place))
    archive_all(mp, FileSize(file_messages=100))
    found = files(conn)
    assert [file.messages for file in found] == [100, 100, 50]
    assert [file.after for file in found] == [Position.BEGINNING, positions[99], positions[199]]
    assert [file.last for file in found] == [positions[99], positions[199], positions[249]]
    assert [file.name for file in found] == names_in(place)
    assert left(conn) == positions
    mp.retention(keep_messages=0, archive=str(place))
    assert remove_old(conn).number == 250
    assert left(conn) == []
    assert everything(mp) == before
    archive_all(mp)
    assert files(conn) == found


def test_it_begins_where_the_log_does(mp: Milepost, conn: Connection, place: Path) -> None:
    positions = numbered(conn, 30)
    mp.retention(keep_messages=10, no_archive=True)
    mp.remove_old()
    mp.retention(archive=str(place))
    archive_all(mp)
    (file,) = files(conn)
    assert (file.after, file.last, file.messages) == (positions[19], positions[29], 10)


def test_nothing_is_archived_that_may_still_change(
    mp: Milepost, conn: Connection, place: Path
) -> None:
    (first,) = append(conn, Message("T", {}))
    mp.retention(archive=str(place))
    with mp.connect() as other:
        other.execute("begin")
        append(other, Message("T", {}))
        append(conn, Message("T", {}))
        archive_all(mp)
        assert [file.last for file in files(conn)] == [first]
        other.execute("commit")
    archive_all(mp)
    assert sum(file.messages for file in files(conn)) == 3


@pytest.mark.parametrize(
    ("policy", "archived"),
    [
        ({}, 30),
        ({"archive_after": HOUR}, 20),
        ({"keep": HOUR}, 20),
        ({"keep_messages": 5}, 25),
        ({"keep": HOUR, "keep_messages": 5}, 20),
        ({"keep": HOUR, "keep_messages": 15}, 15),
        ({"keep": timedelta(days=30), "archive_after": HOUR}, 20),
        ({"keep_messages": 0, "archive_after": HOUR}, 20),
    ],
)
def test_the_policy_says_what_is_archived(
    mp: Milepost, conn: Connection, place: Path, policy: dict[str, object], archived: int
) -> None:
    positions = numbered(conn, 30)
    made_older(conn, positions[:20])
    set_policy(conn, Policy(archive=str(place), **policy))  # type: ignore[arg-type]
    archive_all(mp)
    assert [file.last for file in files(conn)] == [positions[archived - 1]]


def test_one_that_is_younger_among_old_ones_ends_the_file(
    mp: Milepost, conn: Connection, place: Path
) -> None:
    """Times are not strictly in order: what follows the first young message waits."""
    positions = numbered(conn, 30)
    made_older(conn, positions[:10] + positions[11:])
    mp.retention(keep=HOUR, archive=str(place))
    archive_all(mp)
    assert [file.last for file in files(conn)] == [positions[9]]


def test_a_few_messages_wait_for_more(mp: Milepost, conn: Connection, place: Path) -> None:
    size = FileSize(file_messages=100, least_messages=50, longest_wait=HOUR)
    mp.retention(archive=str(place))
    numbered(conn, 149)
    with running(archiver_of(mp, size)):
        wait_until(lambda: len(files(conn)) == 1)
        wait_until(lambda: state(conn) == "running")
        numbered(conn, 1)
        wait_until(lambda: len(files(conn)) == 2)
        last = numbered(conn, 10)
        made_older(conn, last)
        # Each look would have written it, but for the file that was written just now.
        looks(mp, conn, 5)
        assert len(files(conn)) == 2
        conn.execute("update milepost.archive set written_at = written_at - interval '2 hours'")
        wait_until(lambda: len(files(conn)) == 3)
    assert [file.messages for file in files(conn)] == [100, 50, 10]


def looks(mp: Milepost, conn: Connection, count: int) -> None:
    """Waits until the archiver has looked so often: it reports orders it was asked for."""
    for paused in (True, False) * count:
        conn.execute("update milepost.processors set is_paused = %s", [paused])
        wait_until(lambda p=paused: (state(conn) == "paused") == p)  # type: ignore[misc]


def test_large_messages_make_files_of_fewer(mp: Milepost, conn: Connection, place: Path) -> None:
    positions = numbered(conn, 30, size=500_000)
    before = everything(mp)
    mp.retention(keep_messages=0, archive=str(place))
    archive_all(mp, FileSize(file_bytes=6_000_000))
    found = files(conn)
    assert len(found) > 1
    assert found[-1].last == positions[-1]
    assert sum(file.messages for file in found) == 30
    mp.remove_old()
    assert everything(mp) == before


def test_a_new_place_is_used_for_new_files(mp: Milepost, conn: Connection, tmp_path: Path) -> None:
    numbered(conn, 10)
    mp.retention(archive=str(tmp_path / "one"))
    archive_all(mp)
    numbered(conn, 10)
    before = everything(mp)
    mp.retention(keep_messages=0, archive=str(tmp_path / "two"))
    archive_all(mp)
    assert [file.location for file in files(conn)] == [
        str(tmp_path / "one"),
        str(tmp_path / "two"),
    ]
    mp.remove_old()
    assert everything(mp) == before


def test_a_directory_is_stored_as_an_absolute_path(
    mp: Milepost, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set_policy(conn, Policy(archive="here")).archive == str(tmp_path / "here")


def test_one_works_and_another_takes_over(
    mp: Milepost, url: str, conn: Connection, place: Path
) -> None:
    mp.retention(archive=str(place))
    with running(archiver_of(mp, NOW)) as first:
        epoch = epoch_after(conn)
        with running(archiver_of(Milepost(url), NOW)):
            assert [epoch_after(conn) for _ in range(3)] == [epoch] * 3
            first.end()
            assert epoch_after(conn) > epoch


def epoch_after(conn: Connection) -> int:
    """Of the file of new messages."""
    (last,) = append(conn, Message("T", {}))
    wait_until(lambda: files(conn) and files(conn)[-1].last == last)
    return files(conn)[-1].epoch


def test_it_can_be_paused(mp: Milepost, conn: Connection, place: Path) -> None:
    mp.retention(archive=str(place))
    with running(archiver_of(mp, NOW)):
        wait_until(lambda: state(conn) == "running")
        conn.execute("update milepost.processors set is_paused = true")
        wait_until(lambda: state(conn) == "paused")
        numbered(conn, 10)
        conn.execute("select 1")
        assert files(conn) == []
        conn.execute("update milepost.processors set is_paused = false")
        wait_until(lambda: sum(file.messages for file in files(conn)) == 10)
    assert state(conn) == "stopped"


def test_a_place_that_fails_is_tried_again(
    mp: Milepost, conn: Connection, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    positions = numbered(conn, 10)
    place.write_text("a file where the directory should be")
    mp.retention(keep_messages=0, archive=str(place))
    with running(archiver_of(mp, NOW)), caplog.at_level(logging.WARNING):
        wait_until(lambda: state(conn) == "retrying")
        (error,) = one(conn.execute("select last_error from milepost.processors").fetchone())
        assert "ArchiveUnwritable" in error
        assert str(place) in error
        assert mp.remove_old().number == 0
        assert left(conn) == positions
        place.unlink()
        wait_until(lambda: len(files(conn)) == 1)
        wait_until(lambda: state(conn) == "running")


def test_a_run_that_ends_by_itself_gives_up(mp: Milepost, conn: Connection, place: Path) -> None:
    numbered(conn, 10)
    place.write_text("a file where the directory should be")
    mp.retention(archive=str(place))
    with pytest.raises(ArchiveUnwritable, match="No message was removed"):
        archive_all(mp)
    assert (files(conn), state(conn)) == ([], "failed")


def test_a_gap_is_an_error_that_says_what_to_do(
    mp: Milepost, conn: Connection, place: Path
) -> None:
    """The policy was changed to remove without an archive, and back."""
    numbered(conn, 10)
    mp.retention(archive=str(place))
    archive_all(mp)
    positions = numbered(conn, 10)
    mp.retention(keep_messages=4, no_archive=True)
    mp.remove_old()
    mp.retention(archive=str(place))
    with pytest.raises(ArchiveGap, match="milepost archive forget"):
        archive_all(mp)
    assert state(conn) == "failed"
    assert forget_files(conn, "milepost") == 1
    assert forget_files(conn, "milepost") == 0
    archive_all(mp)
    (file,) = files(conn)
    assert (file.after, file.last) == (positions[5], positions[9])


def test_without_a_policy_it_waits_for_one(mp: Milepost, conn: Connection, place: Path) -> None:
    numbered(conn, 10)
    with running(archiver_of(mp, NOW)):
        wait_until(lambda: state(conn) == "running")
        assert files(conn) == []
        mp.retention(archive=str(place))
        wait_until(lambda: len(files(conn)) == 1)


def test_what_failed_leaves_no_file(mp: Milepost, conn: Connection, place: Path) -> None:
    """The scratch file is gone, whatever happened."""
    numbered(conn, 10)
    mp.retention(archive=str(place))
    conn.execute("alter table milepost.archive add constraint never check (messages < 0) not valid")
    with pytest.raises(Exception, match="never"):
        archive_all(mp)
    assert [name for name in names_in(place) if not name.endswith(".parquet")] == []
    conn.execute("alter table milepost.archive drop constraint never")
    archive_all(mp)
    assert len(files(conn)) == 1
    assert len(names_in(place)) == 2  # one is an orphan
