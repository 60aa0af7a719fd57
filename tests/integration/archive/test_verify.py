"""Every difference between files, manifest and log is found, and the file is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import LiteralString

import pytest
from psycopg.sql import SQL

from milepost import Milepost
from milepost.archive.upkeep import compact, verify
from milepost.db import Connection
from milepost.errors import ArchiveFileError
from milepost.log.history.cold import forget_files
from tests.archiving import Archive, append_ranges, remove

append_order = pytest.mark.parametrize("order", ["append"])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"PAR1")


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str | None]] = {
    "flip": (flip, "SHA-256", None),
    "truncate": (truncate, "bytes, and the manifest says", "bytes, and the manifest says"),
    "lengthen": (lengthen, "bytes, and the manifest says", "bytes, and the manifest says"),
    "remove": (lambda path: path.unlink(), "not there", "not there"),
    "directory": (replace_by_directory, "not there", "not there"),
}


def test_an_archive_is_as_the_manifest_says(archive: Archive) -> None:
    ranges = append_ranges(archive.conn, 3, 100)
    archive.archive_each(ranges)
    remove(archive.conn, ranges[1][-1])
    for quick in (False, True):
        found = verify(archive.conn, "milepost", quick=quick)
        assert (found.files, found.messages, list(found.problems)) == (3, 300, [])
        assert found.bytes == sum(file.bytes for file in archive.files())


@append_order
def test_without_an_archive_nothing_is_wrong(conn: Connection) -> None:
    ((last,),) = append_ranges(conn, 1, 1)
    remove(conn, last)
    assert verify(conn, "milepost").problems == []


@append_order
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_the_file_is_named(archive: Archive, mp: Milepost, damage: str) -> None:
    change, problem, when_quick = DAMAGES[damage]
    ranges = append_ranges(archive.conn, 3, 1000)
    files = archive.archive_each(ranges)
    remove(archive.conn, ranges[-1][-1])
    path = archive.directory / files[1].name
    change(path)
    (found,) = verify(archive.conn, "milepost").problems
    assert found.address == str(path)
    assert problem in found.text
    quickly = verify(archive.conn, "milepost", quick=True).problems
    assert [when_quick in each.text for each in quickly if when_quick] == (
        [True] if when_quick else []
    )
    assert_named_and_nothing_is_skipped(mp, files[1].name, 1000)


def assert_named_and_nothing_is_skipped(mp: Milepost, name: str, before: int) -> None:
    """What a reader gets of it."""
    forget_files()
    with mp.reader(batch_size=100) as reader:
        read = [len(reader.read().messages) for _ in range(before // 100)]
        with pytest.raises(ArchiveFileError, match=name):
            reader.read()
    assert sum(read) == before


@append_order
def test_all_problems_are_reported(archive: Archive) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 4, 100))
    (archive.directory / files[0].name).unlink()
    flip(archive.directory / files[2].name)
    found = verify(archive.conn, "milepost").problems
    assert [problem.address for problem in found] == [files[0].address, files[2].address]


@append_order
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("messages = messages + 1", "messages"),
        ("topics = '{other}'", "topics"),
        ("types = null", "types"),
        ("recorded_to = recorded_to + interval '1 second'", "times"),
        ("sha256 = 'abc'", "SHA-256"),
    ],
)
def test_what_the_manifest_says_is_compared(archive: Archive, change: str, problem: str) -> None:
    archive.archive_each(append_ranges(archive.conn, 2, 100))
    archive.conn.execute(SQL("update milepost.archive set {} where is_first").format(SQL(change)))
    (found,) = verify(archive.conn, "milepost").problems
    assert problem in found.text


@append_order
def test_messages_outside_the_range_of_a_file_are_found(archive: Archive) -> None:
    """As a writer would leave them that reads another range than it says."""
    ranges = append_ranges(archive.conn, 1, 100)
    archive.archive_each(ranges)
    changes: tuple[tuple[LiteralString, str], ...] = (
        ("last_position = last_position - 1", "after its range"),
        ("after_position = after_position + 1", "does not follow"),
    )
    for change, problem in changes:
        with archive.conn.transaction(force_rollback=True):
            archive.conn.execute(SQL("update milepost.archive set {}").format(SQL(change)))
            (found,) = verify(archive.conn, "milepost").problems
            assert problem in found.text


def test_a_gap_and_what_was_removed_without_a_file_are_found(archive: Archive) -> None:
    ranges = append_ranges(archive.conn, 4, 10)
    archive.archive_each(ranges[:3])
    archive.conn.execute("alter table milepost.archive drop constraint archive_is_contiguous")
    middle = [ranges[1][-1].transaction_id, ranges[1][-1].position]
    archive.conn.execute(
        "delete from milepost.archive where (last_transaction_id, last_position) = (%s, %s)", middle
    )
    remove(archive.conn, ranges[3][-1])
    gap, removed = verify(archive.conn, "milepost").problems
    assert gap.text.startswith(f"the manifest has a gap: {ranges[0][-1]} to {ranges[1][-1]}")
    assert removed.text == (
        f"messages were removed up to {ranges[3][-1]}, but archived only up to {ranges[2][-1]}"
    )
    archive.conn.execute("update milepost.retention set archive = null, keep_messages = 0")
    assert len(verify(archive.conn, "milepost").problems) == 1  # it may be removed without a file


def test_a_file_that_is_replaced_meanwhile_is_no_problem(archive: Archive, mp: Milepost) -> None:
    archive.archive_each(append_ranges(archive.conn, 3, 10))
    replaced: list[int] = []

    def replace_once(phase: str, done: int, total: int) -> None:
        if not replaced:
            replaced.append(compact(archive.conn, "milepost").joined)
            for name in archive.names() - {file.name for file in archive.files()}:
                (archive.directory / name).unlink()

    with mp.connect() as conn:
        found = verify(conn, "milepost", on_progress=replace_once)
    assert replaced == [3]
    assert (found.files, found.messages, list(found.problems)) == (1, 30, [])
