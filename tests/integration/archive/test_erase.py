"""A key is erased wherever the log has it, and nothing else is."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from threading import Event
from typing import Any

import pyarrow.parquet as pq
import pytest

from milepost import Message, Milepost, Retry, append, db
from milepost.archive.range_archiver import ArchiverFenced, tag_of
from milepost.archive.upkeep import compact, erase, verify
from milepost.db import Connection
from milepost.errors import NotOwner
from milepost.processors.definition import OnFailure
from milepost.processors.set_aside.dead_letters import list_dead_letters
from milepost.records import RecordedMessage
from tests.archiving import Archive, append_ranges, remove, rows_of
from tests.roles import roles_in

history = import_module("milepost.log.history.history")
erasing = import_module("milepost.archive.upkeep.erase")  # its function has the same name
append_order = pytest.mark.parametrize("order", ["append"])
# Erases, and stops when the manifest names the new file.
HELD = """
import sys, time
from importlib import import_module
from milepost import db
from milepost.archive.upkeep import erase
def hold(*_):
    print("replaced", flush=True)
    time.sleep(600)
import_module("milepost.archive.upkeep.erase").remove_stored = hold
with db.connect(sys.argv[1]) as conn:
    erase(conn, "milepost", "k3")
"""


def others(messages: Sequence[RecordedMessage], key: str = "k3") -> list[RecordedMessage]:
    return [message for message in messages if message.key != key]


def keys_in_directory(archive: Archive) -> set[str | None]:
    """Of all files, named or not."""
    tables = [pq.read_table(path, columns=["key"]) for path in archive.directory.iterdir()]
    return {key for table in tables for key in table.column("key").to_pylist()}


def test_a_key_is_erased_from_table_and_files(archive: Archive, mp: Milepost) -> None:
    ranges = append_ranges(archive.conn, 4, 50)
    files = archive.archive_each(ranges[:3])
    expected = others(list(mp.read()))
    remove(archive.conn, ranges[1][-1])
    done = erase(archive.conn, "milepost", "k3")
    # Of the third range, in the table and in a file.
    assert (done.messages, done.archived_messages, done.files) == (14, 21, 3)
    assert list(mp.read()) == expected
    assert keys_in_directory(archive) == {None, "k1", "k2", "k4", "k5", "k6"}
    assert [(file.after, file.last) for file in archive.files()] == [
        (file.after, file.last) for file in files
    ]
    assert archive.names() == {file.name for file in archive.files()}
    assert not done.is_nothing
    assert erase(archive.conn, "milepost", "k3").is_nothing
    assert verify(archive.conn, "milepost").problems == []
    remove(archive.conn, ranges[2][-1])
    assert list(mp.read()) == expected


def test_only_files_that_have_the_key_are_rewritten(archive: Archive) -> None:
    for n in range(3):
        keys = [f"a{n}", f"c{n}", None, "zz" if n == 1 else "b"]
        *_, last = append(archive.conn, *(Message("T", {}, key=key) for key in keys))
        archive.archive(last)
    names = [file.name for file in archive.files()]
    assert erase(archive.conn, "milepost", "zz").files == 1
    assert [file.name == name for file, name in zip(archive.files(), names, strict=True)] == [
        True,
        False,
        True,
    ]
    # Between the lowest and the highest of a file, and in none.
    assert erase(archive.conn, "milepost", "b0").is_nothing


def test_a_file_may_lose_all_its_messages(archive: Archive, mp: Milepost) -> None:
    (before,) = append(archive.conn, Message("T", {"n": 1}, key="x"))
    archive.archive(before)
    middle = append(archive.conn, *(Message("T", {"n": 2}, key="k3") for _ in range(3)))
    archive.archive(middle[-1])
    (after,) = append(archive.conn, Message("T", {"n": 3}, key="x"))
    archive.archive(after)
    remove(archive.conn, after)
    assert erase(archive.conn, "milepost", "k3").archived_messages == 3
    assert [message.position for message in mp.read()] == [before, after]
    assert archive.files()[1].messages == 0
    assert verify(archive.conn, "milepost").problems == []
    assert compact(archive.conn, "milepost").joined == 3
    assert [message.position for message in mp.read()] == [before, after]


def test_positions_of_erased_messages_are_not_given_again(archive: Archive, mp: Milepost) -> None:
    """Also where all of them were the newest, and the table is empty then."""
    positions = append(archive.conn, *(Message("T", {}, key="k3") for _ in range(3)))
    with mp.reader() as reader:
        assert len(reader.read().messages) == 3
        erase(archive.conn, "milepost", "k3")
        assert reader.read().messages == []
        assert list(mp.read()) == []
        (new,) = append(archive.conn, Message("T", {}, key="k4"))
        assert new > positions[-1]
        assert [message.position for message in reader.read().messages] == [new]


def test_a_consumer_passes_what_was_erased_before_it_came(archive: Archive, mp: Milepost) -> None:
    ranges = append_ranges(archive.conn, 2, 30)
    archive.archive_each(ranges)
    remove(archive.conn, ranges[0][-1])
    seen: list[str | None] = []

    @mp.processor("late")
    def note(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend(message.key for message in messages)

    erase(archive.conn, "milepost", "k3")
    note.run(until="caught_up")
    assert len(seen) == 60 - 8
    assert "k3" not in seen


def fail_at(mp: Milepost, *keys: str, on_failure: OnFailure) -> None:
    """Sets the messages of some keys aside."""

    @mp.processor("picky", on_failure=on_failure, retry=Retry(limit=0))
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.key in keys for message in messages):
            raise ValueError("picky")

    fail.run(until="caught_up")


@append_order
@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_letters_of_the_key_are_dropped(
    archive: Archive, mp: Milepost, on_failure: OnFailure
) -> None:
    append_ranges(archive.conn, 2, 30)
    fail_at(mp, "k3", "k4", on_failure=on_failure)
    letters = list_dead_letters(archive.conn, "milepost")
    mine = [letter for letter in letters if letter.key == "k3"]
    done = erase(archive.conn, "milepost", "k3")
    assert (done.letters, done.letters_left) == (len(mine), 0)
    assert list_dead_letters(archive.conn, "milepost") == [
        letter for letter in letters if letter not in mine
    ]
    rows = archive.conn.execute("select key from milepost.parked_keys").fetchall()
    assert rows == ([("k4",)] if on_failure == "park" else [])


@append_order
def test_letters_that_are_being_handled_are_left_for_the_next_time(
    archive: Archive, mp: Milepost
) -> None:
    """Nothing waits for a handler."""
    append_ranges(archive.conn, 1, 30)
    fail_at(mp, "k3", on_failure="park")
    with mp.connect() as handling, handling.transaction():
        handling.execute("select from milepost.parked_keys for no key update")
        done = erase(archive.conn, "milepost", "k3")
        assert (done.letters, done.letters_left) == (0, 4)
    done = erase(archive.conn, "milepost", "k3")
    assert (done.letters, done.letters_left) == (4, 0)
    assert archive.conn.execute("select from milepost.parked_keys").fetchall() == []


def erase_while_an_archiver_writes(archive: Archive) -> None:
    """It has read the messages before, and adds its file afterwards."""
    ranges = append_ranges(archive.conn, 2, 30)
    archive.archive(ranges[0][-1])
    file = archive.publish(ranges[1][-1])
    path = archive.directory / file.name
    written = path.read_bytes()
    erase(archive.conn, "milepost", "k3")
    path.write_bytes(written)  # as if it had been published a moment later
    archive.commit(file)


def test_what_an_archiver_has_read_before_is_not_added(archive: Archive, mp: Milepost) -> None:
    with pytest.raises(ArchiverFenced):
        erase_while_an_archiver_writes(archive)
    expected = list(mp.read())
    last = archive.archive(expected[-1].position).last  # as its next session does
    remove(archive.conn, last)
    assert list(mp.read()) == expected == others(expected)
    assert erase(archive.conn, "milepost", "k3").strays == 1
    assert "k3" not in keys_in_directory(archive)


@append_order
def test_without_the_fence_it_would_be_added(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above would see."""
    run = db.run

    def unfenced(conn: Connection, schema: str, query: str, **parameters: object) -> int:
        return 0 if query == "archive_fence" else run(conn, schema, query, **parameters)

    monkeypatch.setattr(db, "run", unfenced)
    erase_while_an_archiver_writes(archive)
    assert any(row[2] == "k3" for row in rows_of(archive.files()[-1]))


def test_what_was_replaced_before_is_erased_too(archive: Archive) -> None:
    """Files that wait for a sweep, and those of a killed process."""
    ranges = append_ranges(archive.conn, 3, 30)
    archive.archive_each(ranges[:2])
    compact(archive.conn, "milepost")
    archive.publish(ranges[2][-1])
    half = archive.directory / ".half.parquet.tmp"
    half.write_text("half")
    broken = archive.directory / archive.files()[0].name.replace("_e0_", "_e7_")
    broken.write_text("broken")
    done = erase(archive.conn, "milepost", "k3")
    assert (done.files, done.strays) == (1, 3)
    assert set(done.not_examined) == {str(half), str(broken)}
    half.unlink()
    broken.unlink()
    assert "k3" not in keys_in_directory(archive)


@append_order
def test_a_killed_erasure_is_completed_by_the_next(
    archive: Archive, mp: Milepost, url: str
) -> None:
    ranges = append_ranges(archive.conn, 2, 30)
    archive.archive_each(ranges)
    expected = others(list(mp.read()))
    remove(archive.conn, ranges[-1][-1])
    with subprocess.Popen(
        [sys.executable, "-c", HELD, url], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "replaced\n"
        child.send_signal(signal.SIGKILL)
    assert "k3" in keys_in_directory(archive)
    done = erase(archive.conn, "milepost", "k3")
    assert (done.files, done.strays) == (1, 1)
    assert "k3" not in keys_in_directory(archive)
    assert list(mp.read()) == expected
    assert erase(archive.conn, "milepost", "k3").is_nothing


@append_order
def test_files_that_another_database_may_own_are_left(archive: Archive, mp: Milepost) -> None:
    """As in a copy that was restored from a dump: here its tag is in the names."""
    ranges = append_ranges(archive.conn, 2, 30)
    files = archive.archive_each(ranges)
    tag = tag_of(archive.conn, "milepost")
    old = files[0].name
    theirs = old.replace(tag, "00000000")
    (archive.directory / old).rename(archive.directory / theirs)
    archive.conn.execute("update milepost.archive set name = %s where name = %s", [theirs, old])
    remove(archive.conn, ranges[-1][-1])
    done = erase(archive.conn, "milepost", "k3")
    assert (done.files, list(done.files_left)) == (2, [str(archive.directory / theirs)])
    assert all(message.key != "k3" for message in mp.read())
    assert theirs in archive.names()
    assert erase(archive.conn, "milepost", "k3").files_of_others == 1
    again = erase(archive.conn, "milepost", "k3", other_databases=True)
    assert (again.files, again.strays, list(again.files_left)) == (0, 1, [])
    assert "k3" not in keys_in_directory(archive)


@append_order
@pytest.mark.parametrize("look", ["file_after", "files_since"])
def test_a_file_is_looked_up_again_as_often_as_it_is_replaced(
    archive: Archive, mp: Milepost, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """Between the look at the manifest and the opening of the file."""
    ranges = append_ranges(archive.conn, 1, 30)
    archive.archive_each(ranges)
    (first, *_), expected = list(mp.read()), [m for m in mp.read() if m.key in (None, "k4", "k5")]
    remove(archive.conn, ranges[-1][-1])
    real, keys = getattr(history, look), ["k1", "k2", "k3", "k6"]

    def looked(*arguments: Any) -> Any:
        found = real(*arguments)
        if keys:
            erase(archive.conn, "milepost", keys.pop())
        return found

    monkeypatch.setattr(history, look, looked)
    with mp.reader(first.recorded_at if look == "files_since" else "beginning") as reader:
        assert list(reader.messages()) == expected
    assert keys == []


def test_readers_read_on_while_files_are_replaced_and_removed(
    archive: Archive, mp: Milepost
) -> None:
    """They never fail, and never miss a message of another key."""
    ranges = append_ranges(archive.conn, 6, 100)
    archive.archive_each(ranges)
    expected = [m.position for m in mp.read() if m.key not in ("k1", "k2", "k3")]
    remove(archive.conn, ranges[-1][-1])
    done = Event()

    def read_all() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            found = list(mp.read())
            assert [m.position for m in found if m.key not in ("k1", "k2", "k3")] == expected
            with mp.reader(found[0].recorded_at, batch_size=7) as reader:
                assert {m.position for m in reader.messages()} >= set(expected[1:])
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(read_all) for _ in range(3)]
        try:
            for key in ("k1", "k2", "k3"):
                erase(archive.conn, "milepost", key)
                compact(archive.conn, "milepost", min_messages=250, target_messages=250)
        finally:
            done.set()
        assert all(each.result(60) for each in reading)
    assert verify(archive.conn, "milepost").problems == []


@append_order
def test_nobody_waits_long_for_an_erasure(archive: Archive, mp: Milepost) -> None:
    """The table is read in many small transactions."""
    append_ranges(archive.conn, 20, 2000)
    steps: list[float] = []
    real = erasing.next_step

    def noting(step: int, seconds: float) -> int:
        steps.append(seconds)
        return int(real(step, seconds))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(erasing, "next_step", noting)
        done = erase(archive.conn, "milepost", "k3")
    assert done.messages == 20 * 286
    assert len(steps) > 5


@append_order
def test_only_the_owner_erases(archive: Archive, url: str) -> None:
    append_ranges(archive.conn, 1, 30)
    with (
        roles_in(url) as roles,
        db.connect(roles.make("read", "operate")) as conn,
        pytest.raises(NotOwner),
    ):
        erase(conn, "milepost", "k3")
    assert erase(archive.conn, "milepost", "k3").messages == 4
