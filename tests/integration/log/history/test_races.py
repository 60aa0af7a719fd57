"""Readers beside the archiver, the remover and a compaction: what moves while they read is read
once. With the order of the two questions turned round, it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event

import pytest

from milepost import Message, Milepost, Position, append
from milepost.db import Connection
from milepost.errors import ArchiveFileMissing, RangeRemoved
from milepost.log import Reader, read, start_position
from milepost.log.history import History, position_since
from milepost.log.history.cold import forget_files
from tests.archiving import Archive

COUNT = 30


@pytest.fixture(autouse=True)
def _as_a_new_process() -> Iterator[None]:
    yield
    forget_files()


@pytest.fixture
def positions(conn: Connection) -> list[Position]:
    return [
        position
        for n in range(COUNT)
        for position in append(conn, Message("Counted", {"n": n}, key=f"key-{n % 3}"))
    ]


@pytest.fixture
def archive(mp: Milepost, url: str, archive: Archive) -> Iterator[Archive]:
    """On a connection of its own."""
    with mp.connect() as own, closing(Archive(own, url, archive.location)) as made:
        yield made


def before(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, act: Callable[[], object]
) -> None:
    """Do something once, at the moment when the reader is about to call a function."""
    real, done = getattr(owner, name), Event()

    def called(*args: object, **options: object) -> object:
        if not done.is_set():
            done.set()
            act()
        return real(*args, **options)

    monkeypatch.setattr(owner, name, called)


def swept(archive: Archive) -> None:
    """And this process has read nothing yet."""
    archive.sweep()
    forget_files()


def read_all(reader: Reader) -> list[Position]:
    return [message.position for message in reader.messages()]


@pytest.mark.parametrize("batch_size", [4, 1000])
def test_what_is_removed_before_the_read_is_in_the_archive(
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    monkeypatch: pytest.MonkeyPatch,
    batch_size: int,
) -> None:
    """Also after a look at the manifest, at the end of a file, that found nothing."""
    archive.move(positions[9])
    before(monkeypatch, read, "_read_table", lambda: archive.move(positions[19]))
    assert read_all(Reader(conn, batch_size=batch_size)) == positions


def test_asked_the_other_way_round_the_reader_would_stop(
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The manifest before the table: neither has what moves meanwhile."""

    def manifest_first(conn: Connection, wanted: read._Wanted, history: History) -> object:
        if history.find(conn, wanted.after):
            return read._read_cold(conn, history, wanted)
        return read._read_table(conn, wanted, history.schema)

    monkeypatch.setattr(read, "_fetch_batch", manifest_first)
    before(monkeypatch, read, "_read_table", archive.move)
    with pytest.raises(RangeRemoved):
        read_all(Reader(conn))


def test_a_table_that_does_not_refuse_would_lose_messages(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    """Of this the readers are protected by the marker, which is in the snapshot of the rows."""
    conn.execute(
        "create or replace function milepost.refuse_removed(after milepost.position) "
        "returns boolean language sql stable return true"
    )
    archive.move(positions[9])
    assert read_all(Reader(conn)) == positions[10:]


def test_a_time_is_looked_up_in_the_table_first(
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time = list(Reader(conn).messages())[5].recorded_at
    expected = start_position(conn, time)
    assert positions[4] <= expected < positions[5]
    before(monkeypatch, read, "position_since", archive.move)
    assert start_position(conn, time) == expected


def test_a_time_looked_up_in_the_archive_first_would_begin_too_late(
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = list(Reader(conn).messages())

    def archive_first(conn: Connection, time: object, schema: str) -> Position:
        found = position_since(conn, schema, time)  # type: ignore[arg-type]  # as it is passed
        at = vars(read)["fetch_one"](conn, schema, "position_at", recorded_from=time)
        return Position(*at) if found is None else found

    monkeypatch.setattr(read, "_position_at", archive_first)
    before(monkeypatch, read, "fetch_one", archive.move)
    assert start_position(conn, messages[5].recorded_at) == positions[-1]


@pytest.mark.parametrize("rows_per_group", [4, 100])
def test_a_file_is_replaced_while_it_is_read(
    conn: Connection, archive: Archive, positions: list[Position], rows_per_group: int
) -> None:
    archive.move(positions[9])
    archive.move(positions[19])
    archive.join(archive.files()[:1], rows_per_group=4)
    reader = Reader(conn, batch_size=3)
    found = [message.position for _ in range(2) for message in reader.read().messages]
    archive.join(archive.files(), rows_per_group)
    swept(archive)
    found += read_all(reader)
    assert found == positions


def test_a_file_is_replaced_again_and_again(
    conn: Connection,
    archive: Archive,
    positions: list[Position],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time before it is opened."""
    archive.move(positions[19])
    left = 5

    def replace_it() -> None:
        nonlocal left
        if left:
            left -= 1
            before(monkeypatch, History, "_stretch_of", replace_it)
            archive.join(archive.files())
            swept(archive)

    before(monkeypatch, History, "_stretch_of", replace_it)
    assert read_all(Reader(conn)) == positions
    assert left == 0


def test_a_reader_that_keeps_the_name_of_a_file_would_fail(
    conn: Connection, archive: Archive, positions: list[Position], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another look at the manifest."""
    file = archive.move()
    reader = Reader(conn, batch_size=4)
    reader.read()
    monkeypatch.setattr("milepost.log.history.history.file_after", lambda *_: file)
    monkeypatch.setattr(History, "_stretch_of", lambda *_: _raise(ArchiveFileMissing(file.address)))
    with pytest.raises(ArchiveFileMissing):
        reader.read()


def _raise(error: Exception) -> None:
    raise error


def test_a_key_is_erased_while_the_file_is_read(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    """A reader that begins afterwards does not see it, one that is in the file goes on."""
    file = archive.move()
    reader = Reader(conn, batch_size=4)
    found = [message.position for message in reader.read().messages]
    archive.join([file], without_key="key-1")
    swept(archive)
    reader._history.leave()
    found += read_all(reader)
    left = [position for n, position in enumerate(positions) if n % 3 != 1 or n < 4]
    assert found == left
    assert read_all(Reader(conn)) == [p for n, p in enumerate(positions) if n % 3 != 1]


def test_the_next_file_comes_while_the_reader_is_at_the_end_of_one(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    archive.move(positions[9])
    reader = Reader(conn, batch_size=10)
    assert reader.read().reached == positions[9]
    archive.move(positions[19])
    assert reader.read().reached == positions[19]
    archive.archive()
    assert reader.read().reached == positions[-1]
    assert not reader.read().messages
