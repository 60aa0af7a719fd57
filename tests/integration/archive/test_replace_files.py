"""The manifest changes as a whole or not at all, and only if it is as it was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from milepost import Milepost, db
from milepost.archive import range_archiver
from milepost.archive.range_archiver import add_to_manifest, tag_of
from milepost.archive.upkeep import erase, manifest, replace_files, rewrite
from milepost.db import Connection
from milepost.errors import ArchiveUnwritable, RangeRemoved
from milepost.log.history import ArchivedFile
from tests.archiving import Archive, append_ranges, remove
from tests.waiting import wait_until

append_order = pytest.mark.parametrize("order", ["append"])


def keys_read(mp: Milepost) -> set[str | None]:
    return {message.key for message in mp.read()}


def joined(archive: Archive, files: Sequence[ArchivedFile]) -> ArchivedFile:
    return rewrite.rewritten(files, archive.location, tag_of(archive.conn, "milepost"))


@pytest.mark.parametrize("which", [slice(0, 2), slice(1, 3), slice(0, 3), slice(1, 2)])
def test_files_are_replaced_by_one_of_the_same_range(
    archive: Archive, mp: Milepost, which: slice
) -> None:
    ranges = append_ranges(archive.conn, 3, 20)
    files = archive.archive_each(ranges)
    expected = list(mp.read())
    remove(archive.conn, ranges[-1][-1])
    new = joined(archive, files[which])
    assert replace_files(archive.conn, "milepost", files[which], new)
    files[which] = [new]
    assert [file.name for file in archive.files()] == [file.name for file in files]
    assert list(mp.read()) == expected
    assert len(archive.names()) == 4  # readers may hold the old ones' names


def test_another_range_is_refused(archive: Archive) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 3, 5))
    new = joined(archive, files[:2])
    for old in (files, files[:1], [files[0], files[2]], files[1::-1], []):
        with pytest.raises(ValueError, match="does not have the range"):
            replace_files(archive.conn, "milepost", old, new)
    assert archive.files() == [
        replace(file, written_at=now.written_at)
        for file, now in zip(files, archive.files(), strict=True)
    ]


def test_a_file_that_is_not_there_is_not_added(archive: Archive) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 2, 5))
    new = joined(archive, files)
    (archive.directory / new.name).unlink()
    with pytest.raises(ArchiveUnwritable, match=new.name):
        replace_files(archive.conn, "milepost", files, new)
    assert [file.name for file in archive.files()] == [file.name for file in files]


def overtaken_swap(archive: Archive) -> bool:
    """Files are joined while a key is erased from one of them."""
    ranges = append_ranges(archive.conn, 2, 20)
    files = archive.archive_each(ranges)
    remove(archive.conn, ranges[-1][-1])
    new = joined(archive, files)
    path = archive.directory / new.name
    written = path.read_bytes()
    assert erase(archive.conn, "milepost", "k3").archived_messages > 0
    path.write_bytes(written)  # as if it had been published a moment later
    return replace_files(archive.conn, "milepost", files, new)


def test_what_was_read_before_a_replacement_replaces_nothing(
    archive: Archive, mp: Milepost
) -> None:
    assert not overtaken_swap(archive)
    assert "k3" not in keys_read(mp)
    assert {"k1", "k2"} < keys_read(mp)


def test_without_the_comparison_an_erased_key_returns(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""
    real = db.fetch_one

    def uncompared(conn: Connection, schema: str, query: str, **parameters: Any) -> Any:
        if query != "archive_replace" or len(parameters["names"]) == 1:
            return real(conn, schema, query, **parameters)
        conn.execute("delete from milepost.archive")
        return (len(parameters["names"]),)

    monkeypatch.setattr(db, "fetch_one", uncompared)
    assert overtaken_swap(archive)
    assert "k3" in keys_read(mp)


class Looking:
    """Somebody reads whenever a file is added."""

    def __init__(self, mp: Milepost, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[int] = []
        add = add_to_manifest

        def looking(conn: Connection, schema: str, file: ArchivedFile) -> None:
            self.seen.append(len(list(mp.read())))
            add(conn, schema, file)

        monkeypatch.setattr(manifest, "add_to_manifest", looking)


def test_a_reader_never_sees_half_of_a_replacement(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = append_ranges(archive.conn, 3, 20)
    files = archive.archive_each(ranges)
    remove(archive.conn, ranges[-1][-1])
    looking = Looking(mp, monkeypatch)
    assert replace_files(archive.conn, "milepost", files[1:], joined(archive, files[1:]))
    assert looking.seen == [60]
    assert len(list(mp.read())) == 60


@pytest.mark.parametrize(
    ("which", "error"),
    [(slice(1, 3), RangeRemoved), (slice(0, 2), psycopg.errors.ForeignKeyViolation)],
)
def test_in_two_transactions_a_reader_sees_it_or_the_chain_refuses(
    archive: Archive,
    mp: Milepost,
    monkeypatch: pytest.MonkeyPatch,
    which: slice,
    error: type[Exception],
) -> None:
    """What the test above would see."""
    ranges = append_ranges(archive.conn, 3, 20)
    files = archive.archive_each(ranges)
    remove(archive.conn, ranges[-1][-1])
    Looking(mp, monkeypatch)
    with db.connect(archive.conn.info.dsn) as conn:
        monkeypatch.setattr(conn, "transaction", nullcontext)
        with pytest.raises(error):
            replace_files(conn, "milepost", files[which], joined(archive, files[which]))


@contextmanager
def half_replaced(conn: Connection, files: Sequence[ArchivedFile]) -> Iterator[None]:
    """A replacement that is not committed yet."""
    new = files[-1]
    with conn.transaction():
        db.run(conn, "milepost", "archive_lock")
        db.fetch_one(conn, "milepost", "archive_replace", names=[new.name])
        add_to_manifest(conn, "milepost", new)
        yield


def add_after_a_replacement(archive: Archive, mp: Milepost) -> None:
    """An archiver commits while the file before its own is being replaced."""
    ranges = append_ranges(archive.conn, 3, 5)
    files = archive.archive_each(ranges[:2])
    with mp.connect() as other, ThreadPoolExecutor(1) as pool:
        with half_replaced(other, files):
            adding = pool.submit(archive.archive, ranges[2][-1])
            pid = archive.conn.info.backend_pid
            waits = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
            wait_until(lambda: adding.done() or other.execute(waits, [pid]).fetchone() == (True,))
        adding.result(60)
    assert len(archive.files()) == 3


def test_an_archiver_waits_for_a_replacement(archive: Archive, mp: Milepost) -> None:
    add_after_a_replacement(archive, mp)


@append_order
def test_without_the_lock_an_archiver_fails_at_the_foreign_key(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""
    monkeypatch.setattr(range_archiver, "lock_manifest", lambda *_: None)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        add_after_a_replacement(archive, mp)
