"""The history of one key: in order, up to the horizon, from the table and from the archive."""

from __future__ import annotations

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, append
from milepost.db import Connection
from milepost.errors import IndexMissing
from milepost.records import Segment
from tests.archiving import Archive
from tests.integration.cli.command import Cli


@pytest.fixture
def mp(url: str) -> Milepost:
    made = Milepost(url)
    made.migrate(key_index=True)
    return made


def fill(conn: Connection, count: int = 60) -> list[Position]:
    return append(
        conn,
        *(
            Message(("A", "B")[n % 2], n, key=("a", "b", "c", None)[n % 4], topic=str(n % 3))
            for n in range(count)
        ),
    )


def expected(messages: list[RecordedMessage], key: str) -> list[RecordedMessage]:
    return [message for message in messages if message.key == key]


@pytest.mark.parametrize("archived", [0, 25, 60])
def test_the_messages_of_a_key_are_read_in_order_wherever_they_are(
    mp: Milepost, conn: Connection, archive: Archive, archived: int
) -> None:
    positions = fill(conn)
    whole = list(mp.read())
    if archived:
        archive.up_to(positions[9], positions[archived - 1])
        archive.remove()
    for key in ("a", "b", "nobody's"):
        assert list(mp.read(key=key, batch_size=4)) == expected(whole, key)
    after = list(mp.read(positions[15], key="b"))
    assert after == [each for each in expected(whole, "b") if each.position > positions[15]]
    some = list(mp.read(key="a", topics=["0", "1"], types=["A"]))
    assert some == [each for each in expected(whole, "a") if each.topic in "01"]
    assert some != expected(whole, "a")


def test_nothing_above_the_horizon_is_read(mp: Milepost, conn: Connection) -> None:
    (first,) = append(conn, Message("T", 1, key="k"))
    with mp.connect() as open_, open_.transaction():
        append(open_, Message("T", 2, key="other"))
        append(conn, Message("T", 3, key="k"))
        assert [each.position for each in mp.read(key="k")] == [first]
    with mp.reader(key="k") as reader:
        assert [each.data for each in reader.read().messages] == [1, 3]
        append(conn, Message("T", 4, key="k"), Message("T", 5))
        assert [each.data for each in reader.read().messages] == [4]


@pytest.mark.parametrize("order", ["append"])
def test_the_command_reads_one_key(mp: Milepost, url: str, conn: Connection) -> None:
    fill(conn, 20)
    lines = Cli(url).run("read", "--key", "b", "--type", "B").stdout.splitlines()
    assert len(lines) == 5
    assert all('"key":"b"' in line for line in lines)
    both = Cli(url).run("read", "--key", "b", "--segment", "0/0")
    assert both.code == 2
    assert "one of --key and --segment" in both.stderr


@pytest.mark.parametrize("order", ["append"])
def test_what_cannot_be_read_is_refused(mp: Milepost, conn: Connection) -> None:
    with pytest.raises(ValueError, match="expected one of them"):
        list(mp.read(key="k", segment=Segment.WHOLE))
    conn.execute("drop index milepost.messages_key")
    with pytest.raises(IndexMissing, match="migrate --with-key-index"):
        list(mp.read(key="k"))
