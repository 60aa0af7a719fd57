"""What is set aside of history is copied from the archive, as it is stored there, and kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from milepost import Milepost, Position, RecordedMessage
from milepost.checkpoints import CheckpointKey
from milepost.db import Connection
from milepost.errors import ArchiveFileMissing, RangeRemoved
from milepost.processors.set_aside.dead_letters import DeadLetter, list_dead_letters
from milepost.processors.set_aside.skip import skip
from tests.archiving import Archive
from tests.integration.processors.running import running
from tests.integration.processors.set_aside.picky import (
    NEVER_AGAIN,
    SCHEMA,
    TABLE,
    Picky,
    Table,
    pairs,
)
from tests.undecodable import KINDS, append_undecodable
from tests.waiting import wait_until

KEY = CheckpointKey("picky")
LONG_AGO = datetime.min.replace(tzinfo=UTC)
# PostgreSQL keeps such JSON as it is written.
VERBATIM = '{"n" : 7,  "n": 7.0, "nothing": "\\u0000", "half": "\\ud800"}'


@pytest.fixture
def picky(url: str) -> Picky:
    return Picky(url)


@pytest.fixture
def table(mp: Milepost, conn: Connection) -> Table:
    conn.execute(TABLE)
    return Table(mp, conn)


def letters(conn: Connection) -> list[DeadLetter]:
    """By position, without what differs from run to run."""
    found = sorted(list_dead_letters(conn, SCHEMA), key=lambda letter: letter.at)
    return [replace(each, id=0, failed_at=LONG_AGO, error="", traceback="") for each in found]


WAYS = [
    ("exactly_once", "def", "batch", {}),
    ("exactly_once", "async", "message", {}),
    ("exactly_once", "def", "batch", {"segments": 2}),
    ("at_least_once", "def", "message", {}),
    ("at_least_once", "def", "message", {"concurrency": 3}),
    ("at_least_once", "async", "batch", {"segments": 2}),
]


@pytest.mark.parametrize(("delivery", "colour", "handle", "options"), WAYS)
def test_a_dead_letter_of_history(
    mp: Milepost,
    conn: Connection,
    picky: Picky,
    table: Table,
    archive: Archive,
    delivery: str,
    colour: str,
    handle: str,
    options: dict[str, Any],
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(("a", 1), ("bad", 2), ("b", 3), ("a", 4), ("bad", 5), ("a", 6))
    archive.move(positions[3])
    picky.processor(mp, delivery, colour, handle, on_failure="skip", **options).run(
        until="caught_up"
    )
    found = list_dead_letters(conn, SCHEMA)
    assert sorted(letter.at for letter in found) == [positions[1], positions[4]]
    assert {letter.data["n"] for letter in found} == {2, 5}
    assert sorted(n for _, n in table.seen()) == [1, 3, 4, 6] or delivery == "at_least_once"


@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_a_letter_is_the_same_from_the_table_and_from_a_file(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, archive: Archive, on_failure: str
) -> None:
    picky.disliked = {"bad", None}
    table.append(("bad", 1), (None, 2))
    conn.execute(
        "insert into milepost.messages (type, key, data, metadata) values ('T', 'bad', %s, %s)",
        [VERBATIM, '{"trace" : "grüße"}'],
    )
    for kind in KINDS:
        append_undecodable(conn, kind, key="bad")
    table.append(("a", 1))
    processor = picky.processor(mp, on_failure=on_failure, batch_size=4)
    processor.run(until="caught_up")
    before = letters(conn)
    assert len(before) == 3 + len(KINDS)
    archive.move()
    assert processor.reset("beginning", conn) == Position.BEGINNING
    assert letters(conn) == [], "they are delivered again"
    processor.run(until="caught_up")
    assert letters(conn) == [replace(each, is_replayed=True) for each in before]


@pytest.mark.parametrize(
    ("delivery", "colour", "handle", "options"),
    [way for way in WAYS if "concurrency" not in way[3]],  # threads do not park
)
def test_a_parked_key_of_history_waits_and_is_retried_in_order(
    mp: Milepost,
    picky: Picky,
    table: Table,
    archive: Archive,
    delivery: str,
    colour: str,
    handle: str,
    options: dict[str, Any],
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(
        ("a", 1), ("bad", 1), ("bad", 2), ("a", 2), ("bad", 3), ("a", 3), ("bad", 4)
    )
    archive.move(positions[2])
    archive.move(positions[4])
    processor = picky.processor(mp, delivery, colour, handle, batch_size=10, **options)
    processor.run(until="caught_up")
    assert sorted(table.letters()) == pairs("bad", [1, 2, 3, 4])
    assert table.parked() == ["bad"]
    archive.move()
    picky.disliked.clear()
    with running(processor):
        assert table.retry("bad") == 4
        wait_until(table.is_empty)
    assert table.seen_of("bad") == [1, 2, 3, 4]


@pytest.mark.parametrize("on_failure", ["skip", "park"])
def test_without_the_file_nothing_is_set_aside_and_nothing_passed(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, archive: Archive, on_failure: str
) -> None:
    picky.disliked = {"bad"}
    (bad,) = table.append(("bad", 1))
    file = archive.move()
    hidden = archive.path(file).rename(archive.directory / "hidden")
    processor = picky.processor(mp, on_failure=on_failure)
    with pytest.raises(ArchiveFileMissing, match=file.name):
        processor.run(until="caught_up")
    assert letters(conn) == []
    hidden.rename(archive.path(file))
    processor.run(until="caught_up")
    assert [letter.at for letter in letters(conn)] == [bad]


def test_a_message_that_vanished_is_not_passed(
    mp: Milepost, conn: Connection, table: Table
) -> None:
    """Its letter would be lost."""
    (bad,) = table.append(("bad", 1))

    @mp.processor("fails", on_failure="skip", retry=NEVER_AGAIN, delivery="at_least_once")
    def handle(messages: list[RecordedMessage]) -> None:
        conn.execute("delete from milepost.messages")
        raise RuntimeError(len(messages))

    with pytest.raises(RangeRemoved, match=str(bad)):
        handle.run(until="caught_up")
    assert handle.position() == Position.BEGINNING


@pytest.mark.parametrize("segments", [None, 2])
def test_skip_in_the_archive(
    mp: Milepost,
    conn: Connection,
    picky: Picky,
    table: Table,
    archive: Archive,
    segments: int | None,
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(("a", 1), ("a", 2), ("bad", 3), ("a", 4))
    archive.move()
    processor = picky.processor(mp, on_failure="stop", segments=segments)
    with pytest.raises(Exception, match="no bad"):
        processor.run(until="caught_up")
    assert skip(conn, SCHEMA, KEY, positions[2]).position == positions[2]
    assert [letter.at for letter in letters(conn)] == [positions[2]]
    processor.run(until="caught_up")
    assert [n for _, n in table.seen()] == [1, 2, 4]


def test_skip_looks_beyond_what_is_filtered_out(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, archive: Archive
) -> None:
    """File after file, until it finds the next message."""
    picky.processor(mp, on_failure="stop", types=["Odd"]).run(until="caught_up")
    for n in range(3):
        table.append(("a", n))
        archive.move()
    odd = append_undecodable(conn)
    assert skip(conn, SCHEMA, KEY).position == odd


def test_letters_of_what_is_not_delivered_again_stay(
    mp: Milepost, conn: Connection, picky: Picky, table: Table, archive: Archive
) -> None:
    picky.disliked = {"bad"}
    positions = table.append(("bad", 1), ("a", 2), ("bad", 3), ("a", 4), ("bad", 5))
    archive.archive(positions[2])
    processor = picky.processor(mp, on_failure="skip")
    processor.run(until="caught_up")
    archive.remove()
    picky.disliked.clear()
    processor.reset(positions[1], conn)
    assert [letter.at for letter in letters(conn)] == [positions[0]]
    processor.run(until="caught_up")
    assert [n for _, n in table.seen()] == [2, 4, 3, 4, 5]
