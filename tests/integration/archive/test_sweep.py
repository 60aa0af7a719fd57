"""What nothing refers to is removed; what is used, or may be, never is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from milepost import Milepost, db
from milepost.archive import range_archiver, stored
from milepost.archive.range_archiver import ARCHIVER
from milepost.archive.stored import StoredFile
from milepost.archive.upkeep import Problem, compact, erase, sweep, verify
from milepost.checkpoints import PostgresCheckpointStore
from milepost.errors import ArchiveUnreachable, ArchiveUnwritable, NotOwner
from milepost.log.history import ArchivedFile, Location
from tests.archiving import (
    Archive,
    append_ranges,
    archiving,
    remove,
    use_archive,
)
from tests.roles import roles_in
from tests.waiting import wait_until

sweeping = import_module("milepost.archive.upkeep.sweep")  # its function has the same name
NOW = timedelta(0)
THREE_HOURS = 3 * 3600
append_order = pytest.mark.parametrize("order", ["append"])


def removed(archive: Archive, **options: Any) -> set[str]:
    return {file.name for file in sweep(archive.conn, "milepost", **options).removed}


def test_an_orphan_is_removed_and_nothing_else(archive: Archive, mp: Milepost) -> None:
    ranges = append_ranges(archive.conn, 3, 10)
    files = archive.archive_each(ranges[:2])
    orphan = archive.publish(ranges[2][-1])
    strange = archive.directory / "0-1_2-3.parquet"
    strange.write_text("not ours")
    scratch = archive.directory / ".abc123.parquet.tmp"
    scratch.write_text("half")
    archive.age(THREE_HOURS)
    expected = list(mp.read())
    assert removed(archive, dry_run=True) == {orphan.name, scratch.name}
    assert len(archive.names()) == 5
    assert removed(archive) == {orphan.name, scratch.name}
    assert archive.names() == {*(file.name for file in files), strange.name}
    assert removed(archive) == set()
    remove(archive.conn, ranges[1][-1])
    assert list(mp.read()) == expected


@append_order
def test_a_folder_that_spark_has_left_is_removed(archive: Archive) -> None:
    """As old as the newest of its files: a job that is writing makes it young."""
    archive.archive_each(append_ranges(archive.conn, 1, 10))
    folders = [archive.directory / f".milepost-spark-{n}" for n in range(3)]
    for folder in folders[:2]:
        (folder / "with").mkdir(parents=True)
        (folder / "with" / "part-0.parquet").write_text("half")
    folders[2].mkdir()
    (archive.directory / "another").mkdir()
    archive.age(THREE_HOURS)
    os.utime(folders[1] / "with" / "part-0.parquet")
    assert removed(archive, dry_run=True) == {folders[0].name, folders[2].name}
    assert removed(archive) == {folders[0].name, folders[2].name}
    assert [folder.exists() for folder in folders] == [False, True, False]
    assert (archive.directory / "another").exists()
    assert erase(archive.conn, "milepost", "k3").not_examined == [str(folders[1])]


def test_what_is_young_stays(archive: Archive) -> None:
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    orphan = archive.publish(ranges[1][-1])
    swept = sweep(archive.conn, "milepost")
    assert (list(swept.removed), swept.young) == ([], 1)
    archive.commit(orphan)
    archive.age(THREE_HOURS)
    assert removed(archive) == set()


def test_a_replaced_file_stays_for_a_while_however_old_it_is(archive: Archive) -> None:
    """Its age counts from its replacement: a reader may hold its name."""
    files = archive.archive_each(append_ranges(archive.conn, 2, 10))
    compact(archive.conn, "milepost")
    archive.age(THREE_HOURS)
    swept = sweep(archive.conn, "milepost")
    assert (list(swept.removed), swept.young) == ([], 2)
    archive.conn.execute(
        "update milepost.archive_replaced set replaced_at = replaced_at - interval '3 hours'"
    )
    assert removed(archive) == {file.name for file in files}
    assert archive.conn.execute("select from milepost.archive_replaced").fetchall() == []
    assert [file.name for file in archive.files()] == list(archive.names())


def test_former_places_are_swept_as_long_as_something_is_left(
    archive: Archive, tmp_path: Path
) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 2, 10))
    use_archive(archive.conn, Location.parse(str(tmp_path / "new")))
    compact(archive.conn, "milepost")
    assert archive.files()[0].location == str(tmp_path / "new")
    archive.age(THREE_HOURS)
    assert removed(archive, older_than=NOW) == {file.name for file in files}
    # Nothing refers to the place any more, unless it is named.
    stray = archive.directory / files[0].name
    stray.write_text("")
    assert removed(archive, older_than=NOW) == set()
    assert removed(archive, older_than=NOW, also_in=[archive.location]) == {stray.name}


def test_a_file_is_kept_wherever_the_manifest_says_it_is(archive: Archive, tmp_path: Path) -> None:
    """One place may have two addresses."""
    (file,) = archive.archive_each(append_ranges(archive.conn, 1, 10))
    (tmp_path / "link").symlink_to(archive.directory)
    archive.conn.execute("update milepost.archive set location = %s", [str(tmp_path / "link")])
    assert removed(archive, older_than=NOW, also_in=[archive.location]) == set()
    assert archive.names() == {file.name}


def test_files_of_other_databases_are_not_removed_unless_asked_for(
    archive: Archive, empty_database: str
) -> None:
    Milepost(empty_database).migrate()
    with archiving(empty_database, archive.location) as other:
        ranges = append_ranges(other.conn, 2, 10)
        theirs = [other.archive(ranges[0][-1]), other.publish(ranges[1][-1])]
    append_ranges(archive.conn, 1, 10)
    swept = sweep(archive.conn, "milepost", older_than=NOW)
    assert (list(swept.removed), swept.of_others) == ([], 2)
    names = {file.name for file in theirs}
    assert removed(archive, older_than=NOW, other_databases=True) == names


def test_files_above_the_end_are_of_a_later_state_of_this_database(archive: Archive) -> None:
    """As after a restore, or in a copy of the server's files: the original may use them."""
    ranges = append_ranges(archive.conn, 3, 10)
    files = archive.archive_each(ranges)
    rows = "delete from milepost.archive where (last_transaction_id, last_position) > (%s, %s)"
    archive.conn.execute(rows, [ranges[0][-1].transaction_id, ranges[0][-1].position])
    swept = sweep(archive.conn, "milepost", older_than=NOW, dry_run=True)
    assert {file.name for file in swept.removed} == {files[1].name}
    assert swept.of_others == 1
    assert removed(archive, older_than=NOW, other_databases=True) == {f.name for f in files[1:]}


def test_files_of_an_archive_that_was_forgotten_stay(archive: Archive) -> None:
    """They are all that is left of their messages, even if nothing refers to them."""
    ranges = append_ranges(archive.conn, 4, 10)
    archive.archive_each(ranges[:2])
    remove(archive.conn, ranges[2][-1])
    archive.conn.execute("delete from milepost.archive")
    archive.conn.execute("delete from milepost.checkpoints")
    assert sweep(archive.conn, "milepost", older_than=NOW).of_others == 2
    store = PostgresCheckpointStore(archive.conn)
    store.first(ARCHIVER, lambda: ranges[2][-1], "test")
    orphan = archive.publish(ranges[3][-1])
    assert removed(archive, older_than=NOW) == {orphan.name}
    archive.archive(ranges[3][-1])
    assert sweep(archive.conn, "milepost", older_than=NOW).of_others == 2


def sweep_while_a_file_is_added(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> Sequence[Problem]:
    """It is in the directory already, and the archiver adds it while the sweep looks."""
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    waiting = archive.publish(ranges[1][-1])
    listed = sweeping.listed

    def listing(*arguments: Any) -> list[StoredFile]:
        found: list[StoredFile] = listed(*arguments)
        archive.commit(waiting)
        return found

    monkeypatch.setattr(sweeping, "listed", listing)
    with mp.connect() as conn:
        sweep(conn, "milepost", older_than=NOW)
    return verify(archive.conn, "milepost").problems


def test_a_file_that_is_added_while_a_sweep_looks_stays(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep_while_a_file_is_added(archive, mp, monkeypatch) == []


@append_order
def test_with_the_manifest_of_before_the_listing_it_would_be_removed(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""

    def of_before(*_: Any) -> set[str]:
        return {file.name for file in archive.files()[:1]}

    monkeypatch.setattr(sweeping, "_kept", of_before)
    (problem,) = sweep_while_a_file_is_added(archive, mp, monkeypatch)
    assert problem.text == "it is not there"


def add_what_was_swept(archive: Archive) -> None:
    """An archiver that was stopped for hours between its two steps."""
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    stopped = archive.publish(ranges[1][-1])
    archive.age(THREE_HOURS)
    assert removed(archive) == {stopped.name}
    archive.commit(stopped)


def test_what_was_swept_is_not_added(archive: Archive, mp: Milepost) -> None:
    with pytest.raises(ArchiveUnwritable):
        add_what_was_swept(archive)
    assert verify(archive.conn, "milepost").problems == []
    assert len(archive.files()) == 1


@append_order
def test_without_a_look_it_would_be_added(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""
    monkeypatch.setattr(range_archiver, "lock_manifest", lambda *_: None)
    add_what_was_swept(archive)
    assert len(verify(archive.conn, "milepost").problems) == 1


@append_order
def test_a_sweep_removes_nothing_while_a_file_is_being_added(
    archive: Archive, mp: Milepost
) -> None:
    """It has looked that its file is there, and has not committed yet."""
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    file = archive.publish(ranges[1][-1])
    with mp.connect() as other, ThreadPoolExecutor(1) as pool:
        with archive.conn.transaction():
            archive.commit(file)
            sweeping_ = pool.submit(sweep, other, "milepost", older_than=NOW)
            pid = other.info.backend_pid
            waits = "select wait_event = 'advisory' from pg_stat_activity where pid = %s"
            wait_until(lambda: archive.conn.execute(waits, [pid]).fetchone() == (True,))
        assert list(sweeping_.result(60).removed) == []
    assert verify(archive.conn, "milepost").problems == []


@append_order
def test_the_manifest_is_not_locked_while_the_place_is_asked(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object store may be slow. Others, who add or replace files, do not wait for it."""
    ranges = append_ranges(archive.conn, 1, 10)
    file, real = archive.publish(ranges[0][-1]), stored._refuse_absent
    asked: list[str] = []

    def asking(new: ArchivedFile) -> None:
        with mp.connect() as other, other.transaction():
            other.execute("set local lock_timeout = '1ms'")
            stored.lock_manifest(other, "milepost")
        asked.append(new.name)
        real(new)

    monkeypatch.setattr(stored, "_refuse_absent", asking)
    archive.commit(file)
    assert asked == [file.name]
    assert archive.files() == [replace(file, written_at=archive.files()[0].written_at)]


@append_order
def test_only_the_owner_sweeps(archive: Archive, url: str) -> None:
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    archive.publish(ranges[1][-1])
    with (
        roles_in(url) as roles,
        db.connect(roles.make("read", "metrics")) as conn,
        pytest.raises(NotOwner),
    ):
        sweep(conn, "milepost", older_than=NOW)
    assert len(archive.names()) == 2


@append_order
def test_a_place_that_cannot_be_listed_is_named(archive: Archive, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ArchiveUnreachable, match=str(file)):
        sweep(archive.conn, "milepost", also_in=[Location.parse(str(file))])
