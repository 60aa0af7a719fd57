"""A log that was archived, dumped and restored: the manifest is in the dump, the files stay where
they are, and no position is given twice, even where the table is empty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from milepost import Message, Milepost, Position, append, db
from milepost.archive.range_archiver import tag_of
from milepost.db import Connection
from milepost.errors import LogRestored, PositionLost
from milepost.log.history import Location
from tests.archiving import (
    Archive,
    append_ranges,
    archiving,
    remove,
)
from tests.integration.log.test_restore import USE_UP_IDS, move, rebase
from tests.server import TestServer, postgres

IDS_AHEAD = 20_000
append_order = pytest.mark.parametrize("order", ["append"])
transaction_order = pytest.mark.parametrize("order", ["transaction"])


@pytest.fixture(scope="module")
def younger() -> Iterator[TestServer]:
    with (
        postgres({"autovacuum": "off"}) as embedded,
        closing(TestServer(embedded.start())) as started,
    ):
        yield started


@pytest.fixture
def elder(archive: Archive, url: str) -> list[Position]:
    """The positions of a log that is archived as a whole, and whose table is empty."""
    conn = archive.conn
    used = db.one(conn.execute("select pg_current_xact_id()::text::bigint").fetchone())[0]
    conn.execute(USE_UP_IDS % max(0, IDS_AHEAD - used))
    ranges = append_ranges(conn, 3, 50)
    archive.archive_each(ranges)
    remove(conn, ranges[-1][-1])
    return [position for positions in ranges for position in positions]


@pytest.fixture
def restored(elder: list[Position], url: str, younger: TestServer, tmp_path: Path) -> Iterator[str]:
    name = younger.create_database("archived")
    move(url, younger.url(name), tmp_path / "log.dump")
    yield younger.url(name)
    younger.drop_database(name)


def positions_read(url: str, start: Position = Position.BEGINNING) -> list[Position]:
    return [message.position for message in Milepost(url).read(start)]


def append_one(url: str) -> Position:
    with db.connect(url) as conn:
        return append(conn, Message("New", {}))[0]


def test_a_restored_log_reads_its_files_and_continues(
    elder: list[Position], restored: str, archive: Archive
) -> None:
    with pytest.raises(LogRestored):
        positions_read(restored)
    rebase(restored)
    assert positions_read(restored) == elder
    new = append_one(restored)
    assert new > elder[-1]
    assert positions_read(restored) == [*elder, new]
    with archiving(restored, archive.location) as there:
        assert tag_of(there.conn, "milepost") != tag_of(archive.conn, "milepost")
        there.archive(new)
        remove(there.conn, new)
    assert positions_read(restored) == [*elder, new]


def test_files_above_the_restored_end_are_not_read(
    elder: list[Position], restored: str, archive: Archive
) -> None:
    """The elder goes on and archives more, into the same directory."""
    later = append_ranges(archive.conn, 2, 20)
    archive.archive_each(later)
    rebase(restored)
    new = append_one(restored)
    assert positions_read(restored) == [*elder, new]
    with archiving(restored, archive.location) as there:
        there.archive(new)
        remove(there.conn, new)
    assert positions_read(restored) == [*elder, new]
    assert len(archive.names()) == 3 + 2 + 1


@append_order
@pytest.mark.parametrize("how", ["removed", "archived"])
def test_an_empty_table_without_its_sequence_is_detected(
    elder: list[Position], conn: Connection, mp: Milepost, how: str
) -> None:
    """As a load of the data alone leaves it. The table says nothing; the marker of what was removed
    does, or the archive, if its messages were erased and not removed."""
    conn.execute("alter table milepost.messages alter column position restart")
    if how == "archived":
        conn.execute("update milepost.log set removed_position = 0")
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        list(mp.read())
    with pytest.raises(LogRestored, match="Run: milepost rebase"):
        mp.horizon()
    with mp.connect() as appender, pytest.raises(LogRestored, match="Run: milepost rebase"):
        append(appender, Message("Would be given an old position", {}))
    conn.execute("select milepost.rebase()")
    (new,) = append(conn, Message("New", {}))
    assert new > elder[-1]
    if how == "removed":
        assert [message.position for message in mp.read()] == [*elder, new]


@append_order
def test_a_marker_without_an_archive_is_detected_too(conn: Connection, mp: Milepost) -> None:
    ((last,),) = append_ranges(conn, 1, 1)
    remove(conn, last)
    conn.execute("alter table milepost.messages alter column position restart")
    with pytest.raises(LogRestored):
        mp.horizon()
    conn.execute("select milepost.rebase()")
    assert append(conn, Message("New", {}))[0] > last


@append_order
def test_new_positions_are_above_the_archive_however_high_it_is(
    elder: list[Position], conn: Connection, archive: Archive
) -> None:
    """After an earlier rebase, 2^32 above nothing is not above the archive."""
    conn.execute("select setval('milepost.messages_position_seq', %s)", [2**34])
    (high,) = append(conn, Message("High", {}))
    archive.archive(high)
    remove(conn, high)
    conn.execute("alter table milepost.messages alter column position restart")
    conn.execute("select milepost.rebase()")
    assert append(conn, Message("New", {}))[0] > high


@transaction_order
@pytest.mark.parametrize("how", ["removed", "archived"])
def test_ids_from_the_future_are_found_where_only_the_archive_has_them(
    elder: list[Position], restored: str, how: str
) -> None:
    """A physical copy of a cluster shares its identifier."""
    with db.connect(restored) as conn:
        conn.execute("select milepost.set_place()")
        if how == "archived":
            conn.execute("update milepost.log set removed_transaction_id = 0, removed_position = 0")
        with pytest.raises(LogRestored):
            append(conn, Message("Too early", {}))
    with pytest.raises(LogRestored):
        Milepost(restored).horizon()
    rebase(restored)
    new = append_one(restored)
    assert new > elder[-1]
    if how == "removed":
        assert positions_read(restored) == [*elder, new]


@transaction_order
def test_the_new_ids_are_above_the_archive_however_high_it_is(
    elder: list[Position], restored: str
) -> None:
    """Its messages were appended under a base that is lost."""
    with db.connect(restored) as conn:
        conn.execute("update milepost.log set removed_transaction_id = %s", [2**41])
    rebase(restored)
    assert append_one(restored).transaction_id > 2**41


def test_the_end_of_the_archive_is_not_lost(elder: list[Position], restored: str) -> None:
    """Messages that were erased from the table are known by the archive alone."""
    with db.connect(restored) as conn:
        conn.execute("update milepost.log set removed_transaction_id = 0, removed_position = 0")
        conn.execute("delete from milepost.checkpoints")
    rebase(restored)
    new = append_one(restored)
    assert positions_read(restored, elder[-1]) == [new]


def test_a_lost_position_is_refused_also_where_its_successors_are_archived(
    elder: list[Position], restored: str, archive: Archive
) -> None:
    """A reader has seen messages of the elder that the dump does not have. What follows in the
    restored log is read from files."""
    (lost,) = append(archive.conn, Message("After the dump", {}))
    rebase(restored)
    new = append_one(restored)
    with pytest.raises(PositionLost):
        positions_read(restored, lost)
    with archiving(restored, archive.location) as there:
        there.archive(new)
        remove(there.conn, new)
    with pytest.raises(PositionLost):
        positions_read(restored, lost)
    assert positions_read(restored, elder[-1]) == [new]


def test_the_manifest_is_one_chain_after_a_restore(
    elder: list[Position], restored: str, tmp_path: Path
) -> None:
    """The constraints came with the dump."""
    rebase(restored)
    new = append_one(restored)
    gap = Position(new.transaction_id, new.position - 1)
    with (
        archiving(restored, Location.parse(str(tmp_path / "other"))) as there,
        pytest.raises(psycopg.errors.IntegrityError),
    ):
        there.conn.execute(
            "insert into milepost.archive (after_transaction_id, after_position, "
            "last_transaction_id, last_position, location, name, messages, bytes, sha256, "
            "format_version, epoch) values (%s, %s, %s, %s, '', '', 0, 0, '', 1, 0)",
            [gap.transaction_id, gap.position, new.transaction_id, new.position],
        )
