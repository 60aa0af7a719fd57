"""A file that is missing, cut off, damaged or another one: an error that names it, nothing is
skipped, and the reader goes on once the file is back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from milepost import Message, Position, append
from milepost.db import Connection
from milepost.errors import ArchiveFileBroken, ArchiveFileError, ArchiveFileMissing
from milepost.log import Reader, Selection, start_position
from milepost.log.history import cold
from milepost.log.history.cold import ColdFile, forget_files
from milepost.sql import LogOrder
from tests.archiving import Archive

COUNT = 40
Damage = Callable[[Path, Path], object]


@pytest.fixture(autouse=True)
def _as_a_new_process() -> Iterator[None]:
    yield
    forget_files()


@pytest.fixture
def order() -> LogOrder:
    """What is damaged is so in any order."""
    return "append"


@pytest.fixture
def positions(conn: Connection, archive: Archive) -> list[Position]:
    """In four files."""
    found = append(
        conn,
        *(Message("Counted", {"n": f"{n:04}"}, key=f"key-{n % 3}") for n in range(COUNT)),
    )
    for end in (9, 19, 29, 39):
        archive.move(found[end])
    return found


@pytest.fixture(params=["near", "far"])
def distance(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is far is not read as a whole just to compare its hash."""
    if request.param == "far":
        monkeypatch.setattr(cold, "_is_near", lambda _: False)
    return str(request.param)


def remove(path: Path, _other: Path) -> None:
    path.unlink()


def empty(path: Path, _other: Path) -> None:
    path.write_bytes(b"")


def cut_off(path: Path, _other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def lengthen(path: Path, _other: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def overwrite(path: Path, _other: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def flip_data(path: Path, _other: Path) -> None:
    """A byte of the JSON, which compresses to something that differs from file to file."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    (data,) = [column for column in columns if column.path_in_schema == "data"]
    content = bytearray(path.read_bytes())
    content[data.data_page_offset + data.total_compressed_size - 5] ^= 0x55
    path.write_bytes(content)


def flip_footer(path: Path, _other: Path) -> None:
    """Its length."""
    content = bytearray(path.read_bytes())
    content[-8] ^= 0x01
    path.write_bytes(content)


def swap(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


DAMAGES = [remove, empty, cut_off, lengthen, overwrite, flip_data, flip_footer, swap]


@pytest.mark.usefixtures("distance")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_nothing_is_skipped(
    conn: Connection, archive: Archive, positions: list[Position], damage: Damage
) -> None:
    _, second, third, _ = archive.files()
    content = archive.path(second).read_bytes()
    damage(archive.path(second), archive.path(third))
    forget_files()
    expected = ArchiveFileMissing if damage is remove else ArchiveFileBroken
    reader, found = Reader(conn, batch_size=4), list[Position]()
    with pytest.raises(expected, match=second.name):
        found.extend(message.position for message in reader.messages())
    for _ in range(2):
        with pytest.raises(expected, match="Nothing was skipped"):
            reader.read()
    with pytest.raises(ArchiveFileError, match=second.name):
        Reader(conn).raw(positions[15])
    assert found == positions[:10]
    archive.path(second).write_bytes(content)
    assert [message.position for message in reader.messages()] == positions[10:]


@pytest.mark.usefixtures("distance")
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_still_in_the_table_is_read_from_there(
    conn: Connection, archive: Archive, damage: Damage
) -> None:
    positions = append(conn, *(Message("Counted", {"n": n}) for n in range(30)))
    for end in (9, 19, 29):
        archive.archive(positions[end])
    archive.remove(positions[9])
    _, second, third = archive.files()
    damage(archive.path(second), archive.path(third))
    assert [message.position for message in Reader(conn).messages()] == positions


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_time_is_not_looked_up_beyond_a_damaged_file(
    conn: Connection, archive: Archive, positions: list[Position], damage: Damage
) -> None:
    time = list(Reader(conn).messages())[12].recorded_at
    expected = start_position(conn, time)
    assert positions[11] <= expected < positions[12]
    _, second, third, _ = archive.files()
    content = archive.path(second).read_bytes()
    damage(archive.path(second), archive.path(third))
    forget_files()
    with pytest.raises(ArchiveFileError, match=second.name):
        start_position(conn, time)
    archive.path(second).write_bytes(content)
    assert start_position(conn, time) == expected


def test_a_footer_that_lies_about_its_row_groups_is_noticed(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    """A reader skips row groups by it, so that no page would be missed."""
    path = archive.path(archive.join(archive.files(), rows_per_group=10))
    content = path.read_bytes()
    highest = positions[19].position.to_bytes(8, "little")
    assert content.count(highest) >= 1
    path.write_bytes(content.replace(highest, positions[18].position.to_bytes(8, "little")))
    forget_files()
    with pytest.raises(ArchiveFileBroken, match="SHA-256"):
        list(Reader(conn, positions[18]).messages())


@pytest.mark.usefixtures("distance")
def test_another_file_of_the_same_size_is_noticed(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    _, second, third, _ = archive.files()
    swap(archive.path(second), archive.path(third))
    size = archive.path(second).stat().st_size
    conn.execute("update milepost.archive set bytes = %s where name = %s", [size, second.name])
    with pytest.raises(ArchiveFileBroken, match=r"SHA-256|outside of its range"):
        list(Reader(conn, positions[12]).messages())


def test_a_file_of_a_newer_format_is_refused(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    conn.execute("update milepost.archive set format_version = 2")
    with pytest.raises(ArchiveFileBroken, match="format is 2"):
        list(Reader(conn).messages())
    assert len(positions) == COUNT


def test_a_file_without_a_column_is_refused(
    archive: Archive, positions: list[Position], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cold, "_is_near", lambda _: False)
    file = archive.files()[0]
    table = pq.read_table(archive.path(file)).drop_columns(["key_hash"])
    pq.write_table(table, archive.path(file))
    size = archive.path(file).stat().st_size
    with pytest.raises(ArchiveFileBroken, match="no column key_hash"):
        ColdFile.open(replace(file, bytes=size))
    assert len(positions) == COUNT


def test_a_file_that_cannot_have_what_is_wanted_is_not_needed(
    conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    for file in archive.files():
        archive.path(file).unlink()
    assert list(Reader(conn, selection=Selection(types=["Other"])).messages()) == []
    assert list(Reader(conn, selection=Selection(topics=["other"])).messages()) == []
    late = datetime(2999, 1, 1, tzinfo=UTC)
    assert start_position(conn, late) == positions[-1]


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
from milepost import Milepost, Position
from milepost.errors import ArchiveNotInstalled
mp = Milepost(sys.argv[1])
print(sum(1 for _ in mp.read(Position.parse(sys.argv[2]))))
for start in ("beginning", __import__("datetime").datetime.fromisoformat(sys.argv[3])):
    try:
        list(mp.read(start))
    except ArchiveNotInstalled as error:
        print(error)
"""


def test_without_pyarrow_history_is_refused_and_the_rest_is_read(
    url: str, conn: Connection, archive: Archive, positions: list[Position]
) -> None:
    first = next(iter(Reader(conn).messages()))
    append(conn, Message("New", {}))
    arguments = [url, str(archive.end), first.recorded_at.isoformat()]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], capture_output=True, text=True, check=True
    )
    count, *errors = done.stdout.splitlines()
    assert count == "1"
    assert len(errors) == 2
    assert all("pip install 'milepost[archive]'" in error for error in errors)
    assert len(positions) == COUNT
