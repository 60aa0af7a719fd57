"""Small files are joined: the same messages in the same order, in fewer files."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from milepost import Message, Milepost, append
from milepost.archive import parquet_file
from milepost.archive.upkeep import compact, sweep, verify
from milepost.errors import ArchiveFileBroken
from milepost.log import Reader
from milepost.log.history import Location
from tests.archiving import Archive, append_ranges, remove, use_archive

append_order = pytest.mark.parametrize("order", ["append"])
ODD_TIMES = ["4713-01-01 00:00:00+00 BC", "294000-01-01 00:00:00+00", "infinity", "-infinity"]
# Compacts, and stops when the new file is durable.
HELD = """
import sys, time
from milepost import db
from milepost.archive.upkeep import compact, rewrite
def hold(*_):
    print("published", flush=True)
    time.sleep(600)
rewrite.replace_files = hold
with db.connect(sys.argv[1]) as conn:
    compact(conn, "milepost")
"""


def test_everything_is_joined_and_read_as_before(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 50)
    ranges = append_ranges(archive.conn, 7, 40)
    archive.archive_each(ranges)
    expected = list(mp.read())
    remove(archive.conn, ranges[-1][-1])
    done = compact(archive.conn, "milepost")
    assert (done.joined, done.written, done.messages, done.overtaken) == (7, 1, 280, 0)
    (file,) = archive.files()
    assert (file.messages, file.topics, file.types) == (
        280,
        ("topic0", "topic1"),
        ("Type0", "Type1", "Type2"),
    )
    assert list(mp.read()) == expected
    assert verify(archive.conn, "milepost").problems == []
    assert compact(archive.conn, "milepost").joined == 0


def test_files_are_joined_up_to_the_target(archive: Archive) -> None:
    """Large ones are left alone, and end a group."""
    sizes = [10, 10, 10, 60, 10, 20, 30, 30, 10]
    for size in sizes:
        ((*_, last),) = append_ranges(archive.conn, 1, size)
        archive.archive(last)
    done = compact(archive.conn, "milepost", min_messages=50, target_messages=60)
    assert [file.messages for file in archive.files()] == [30, 60, 60, 40]
    assert (done.joined, done.written) == (8, 3)


def test_odd_messages_stay_as_they_are(archive: Archive) -> None:
    """Times outside the years 1 to 9999, data that Python cannot decode, no key, long texts."""
    conn = archive.conn
    for time in ODD_TIMES:
        (last,) = append(conn, Message("Odd", {}, metadata={"text": "é\U0001f600" * 500}))
        conn.execute(
            "update milepost.messages set recorded_at = %s, data = %s where position = %s",
            [time, '{"a": 1e999,  "b": 1.50}', last.position],
        )
        archive.archive(last)
    expected = list(Reader(conn, keeps_raw=True).messages())
    assert len(expected) == len(ODD_TIMES)
    remove(conn, last)
    compact(conn, "milepost")
    assert len(archive.files()) == 1
    assert list(Reader(conn, keeps_raw=True).messages()) == expected


def test_files_of_several_places_come_to_the_place_of_the_policy(
    archive: Archive, mp: Milepost, tmp_path: Path
) -> None:
    ranges = append_ranges(archive.conn, 4, 10)
    archive.archive_each(ranges[:2])
    elsewhere = replace(archive, location=Location.parse(str(tmp_path / "elsewhere")))
    elsewhere.archive_each(ranges[2:])
    use_archive(archive.conn, Location.parse(str(tmp_path / "third")))
    remove(archive.conn, ranges[-1][-1])
    compact(archive.conn, "milepost")
    (file,) = archive.files()
    assert file.location == str(tmp_path / "third")
    assert len(list(mp.read())) == 40


@append_order
def test_without_a_policy_they_come_to_the_place_of_the_newest(
    archive: Archive, tmp_path: Path
) -> None:
    ranges = append_ranges(archive.conn, 2, 10)
    archive.archive(ranges[0][-1])
    elsewhere = replace(archive, location=Location.parse(str(tmp_path / "elsewhere")))
    elsewhere.archive(ranges[1][-1])
    archive.conn.execute("delete from milepost.retention")
    compact(archive.conn, "milepost")
    assert [file.location for file in archive.files()] == [str(tmp_path / "elsewhere")]


@append_order
def test_files_with_content_are_left_to_spark(archive: Archive) -> None:
    archive.archive_each(append_ranges(archive.conn, 5, 10))
    names = [file.name for file in archive.files()]
    archive.conn.execute(
        "update milepost.archive set has_content = true where name = %s", [names[2]]
    )
    assert compact(archive.conn, "milepost").joined == 4
    assert [file.messages for file in archive.files()] == [20, 10, 20]


@append_order
def test_a_reader_that_is_in_an_old_file_reads_on(archive: Archive, mp: Milepost) -> None:
    ranges = append_ranges(archive.conn, 3, 10)
    archive.archive_each(ranges)
    expected = list(mp.read())
    remove(archive.conn, ranges[-1][-1])
    with mp.reader(batch_size=4) as reader:
        seen = reader.read().messages
        compact(archive.conn, "milepost")
        seen = seen + reader.read().messages
        archive.conn.execute(
            "update milepost.archive_replaced set replaced_at = replaced_at - interval '1 day'"
        )
        archive.age(86400)
        assert len(sweep(archive.conn, "milepost").removed) == 3
        seen += list(reader.messages())
    assert seen == expected


@append_order
def test_a_broken_file_is_named_and_nothing_is_joined(archive: Archive) -> None:
    files = archive.archive_each(append_ranges(archive.conn, 3, 1000))
    path = archive.directory / files[1].name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArchiveFileBroken, match=files[1].name):
        compact(archive.conn, "milepost")
    assert [file.name for file in archive.files()] == [file.name for file in files]
    assert len(archive.names()) == 3  # no half of a new one


def test_a_killed_compaction_leaves_an_orphan_and_nothing_wrong(
    archive: Archive, mp: Milepost, url: str
) -> None:
    ranges = append_ranges(archive.conn, 3, 10)
    files = archive.archive_each(ranges)
    expected = list(mp.read())
    remove(archive.conn, ranges[-1][-1])
    with subprocess.Popen(
        [sys.executable, "-c", HELD, url], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "published\n"
        child.send_signal(signal.SIGKILL)
    assert list(mp.read()) == expected
    (orphan,) = archive.names() - {file.name for file in files}
    archive.age(7200)
    assert [file.name for file in sweep(archive.conn, "milepost").removed] == [orphan]
    assert compact(archive.conn, "milepost").joined == 3
    assert list(mp.read()) == expected
