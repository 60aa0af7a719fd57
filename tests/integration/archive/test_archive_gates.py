"""Nothing is removed that is not archived, and nothing that somebody still needs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, append, db
from milepost.archive import Policy, remove_old, retention_state, set_policy
from milepost.db import Connection, one
from milepost.errors import InternalProcessor, RangeRemoved, ReservedName
from milepost.pipeline.sinks import Append
from milepost.processors import admin
from milepost.processors.replay.reset import reset
from milepost.processors.set_aside.dead_letters import list_dead_letters, request_retry
from milepost.processors.set_aside.skip import skip
from milepost.runtime import Timing
from tests.integration.archive.archiving import (
    archive_all,
    everything,
    files,
    left,
    made_older,
    numbered,
)
from tests.integration.processors.set_aside.picky import TABLE, Picky
from tests.undecodable import KINDS, append_undecodable

ARCHIVE = "milepost.archive"
GATES_OF_CONSUMERS = """
create or replace function milepost.retention_gates() returns table (
  consumer text, version integer, segment integer, transaction_id bigint, "position" bigint
) language sql as 'select c.processor, c.version, c.segment, c.transaction_id, c."position"
  from milepost.checkpoints as c where c.processor <> ''milepost.archive'''
"""


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "archive")


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """As a processor that has handled everything."""


def gates(conn: Connection) -> dict[str, Position]:
    return {gate.consumer: gate.position for gate in retention_state(conn).gates}


def test_what_is_not_archived_stays(mp: Milepost, conn: Connection, place: str) -> None:
    """Also if no archiver has ever run."""
    positions = numbered(conn, 20)
    mp.retention(keep_messages=5, archive=place)
    state = retention_state(conn)
    assert gates(conn) == {ARCHIVE: Position.BEGINNING}
    assert [gate.consumer for gate in state.blocking] == [ARCHIVE]
    assert mp.remove_old().number == 0
    archive_all(mp)
    assert gates(conn) == {ARCHIVE: positions[14]}
    assert retention_state(conn).blocking == []
    assert mp.remove_old().number == 15
    assert left(conn) == positions[15:]


def test_without_the_gate_messages_are_lost(mp: Milepost, conn: Connection, place: str) -> None:
    """What the test above would see."""
    numbered(conn, 20)
    mp.retention(keep_messages=5, archive=place)
    conn.execute(GATES_OF_CONSUMERS)
    assert mp.remove_old().number == 15
    with pytest.raises(RangeRemoved):
        everything(mp)


def test_without_an_archive_its_end_does_not_count(
    mp: Milepost, conn: Connection, place: str
) -> None:
    numbered(conn, 20)
    mp.retention(keep_messages=5, archive=place)
    archive_all(mp)
    numbered(conn, 20)
    mp.retention(keep_messages=5, no_archive=True)
    assert gates(conn) == {}
    assert mp.remove_old().number == 35


def test_what_is_archived_is_kept_as_long_as_the_policy_says(
    mp: Milepost, conn: Connection, place: str
) -> None:
    positions = numbered(conn, 20)
    made_older(conn, positions[:10])
    mp.retention(keep=timedelta(hours=1), archive=place, archive_after=timedelta(0))
    archive_all(mp)
    assert files(conn)[-1].last == positions[-1]
    assert mp.remove_old().number == 10
    mp.retention(archive=place)
    assert retention_state(conn).limit is None


@pytest.mark.parametrize("segments", [None, 2])
def test_consumers_are_gates_beside_the_archive(
    mp: Milepost, conn: Connection, place: str, segments: int | None
) -> None:
    handled = numbered(conn, 20)
    mp.processor("slow", segments=segments)(ignore).run(until="caught_up")
    numbered(conn, 20)
    mp.retention(keep_messages=0, archive=place)
    archive_all(mp)
    assert mp.remove_old().removed == handled[-1]
    assert {gate.consumer for gate in retention_state(conn).blocking} == {"slow"}


def test_the_last_message_may_go(mp: Milepost, conn: Connection, place: str) -> None:
    """The horizon does not go back, and what is asked about times still has an answer."""
    positions = numbered(conn, 10)
    before = mp.horizon()
    mp.retention(keep_messages=0, archive=place)
    archive_all(mp)
    assert mp.remove_old().number == 10
    assert left(conn) == []
    assert mp.horizon() == before == positions[-1]
    assert retention_state(conn).limit == positions[-1]
    ((at, last),) = conn.execute(
        "select milepost.position_at('2000-01-01'), milepost.last_message(milepost.horizon())"
    ).fetchall()
    assert (at, last) == (f"({before.transaction_id},{before.position})",) * 2
    (following,) = append(conn, Message("T", {}))
    assert mp.horizon() == following > before
    assert [message.position for message in mp.read(positions[-1])] == [following]
    archive_all(mp)
    assert mp.remove_old().removed == following == mp.horizon()


def test_the_end_is_the_horizon_after_everything_was_removed(
    mp: Milepost, conn: Connection, place: str
) -> None:
    positions = numbered(conn, 10)
    mp.retention(keep_messages=0, archive=place)
    archive_all(mp)
    mp.remove_old()
    processor = mp.processor("late", start_from="end")(ignore)
    processor.run(until="caught_up")
    assert processor.position() == positions[-1]


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("segments", [None, 2])
@pytest.mark.parametrize("on_failure", ["skip", "park"])
@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_what_was_set_aside_needs_no_row(
    mp: Milepost, url: str, conn: Connection, on_failure: str, delivery: str, segments: int | None
) -> None:
    """A letter has its own copy, also of what was held back behind it, and its retry does too."""
    conn.execute(TABLE)
    picky = Picky(url, {"bad"})
    processor = picky.processor(mp, delivery, on_failure=on_failure, segments=segments)
    for n in range(6):
        append(conn, Message("T", {"n": n}, key="bad" if n % 2 else f"good-{n}"))
    processor.run(until="caught_up")
    mp.retention(keep_messages=0, no_archive=True)
    assert mp.remove_old().number == 6
    letters = list_dead_letters(conn, "milepost")
    assert [letter.data["n"] for letter in letters] == [1, 3, 5]
    picky.disliked.clear()
    request_retry(conn, "milepost", [letter.id for letter in letters])
    processor.run(until="caught_up")
    assert sorted({n for (n,) in conn.execute("select n from seen")}) == list(range(6))
    assert list_dead_letters(conn, "milepost") == []


@pytest.mark.parametrize("order", ["append"])
@pytest.mark.parametrize("on_failure", ["skip", "park"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_letter_that_cannot_be_decoded_needs_no_row(
    mp: Milepost, url: str, conn: Connection, kind: str, on_failure: str
) -> None:
    conn.execute(TABLE)
    append_undecodable(conn, kind, key="bad")
    content = "select data::text, metadata::text, recorded_at::text from milepost."
    before = one(conn.execute(f"{content}messages".encode()).fetchone())
    Picky(url).processor(mp, on_failure=on_failure).run(until="caught_up")
    mp.retention(keep_messages=0, no_archive=True)
    assert mp.remove_old().number == 1
    assert one(conn.execute(f"{content}dead_letters".encode()).fetchone()) == before


@pytest.mark.parametrize("order", ["append"])
def test_a_time_without_an_end_keeps_nothing(mp: Milepost, conn: Connection, place: str) -> None:
    append_undecodable(conn, "infinity")
    positions = numbered(conn, 10)
    made_older(conn, positions)
    mp.retention(keep=timedelta(hours=1), archive=place)
    archive_all(mp)
    assert files(conn)[-1].messages == 11
    assert mp.remove_old().number == 11


@pytest.mark.parametrize("order", ["append"])
def test_operators_cannot_move_the_archivers_checkpoint(
    mp: Milepost, conn: Connection, place: str
) -> None:
    numbered(conn, 10)
    mp.retention(archive=place)
    archive_all(mp)
    key = admin.find(conn, "milepost", ARCHIVE)
    before = gates(conn)
    with pytest.raises(InternalProcessor, match=r"internal.*Nothing was changed"):
        admin.abandon(conn, "milepost", key)
    with pytest.raises(InternalProcessor):
        reset(conn, mp.connect, "milepost", key, "beginning")
    numbered(conn, 1)
    with pytest.raises(InternalProcessor):
        skip(conn, "milepost", key)
    split = {"processor": ARCHIVE, "version": 1, "number": 2, "transaction_id": 0, "position": 0}
    with pytest.raises(InternalProcessor):
        db.run(conn, "milepost", "segments_create", **split)
    assert gates(conn) == before


def test_no_processor_and_no_pipeline_is_called_like_an_internal_one(mp: Milepost) -> None:
    with pytest.raises(ReservedName, match="Choose another name"):
        mp.processor(ARCHIVE)(ignore)
    with pytest.raises(ReservedName):
        mp.pipeline("milepost.mine", sink=Append("t"))(lambda messages: messages)


@pytest.mark.parametrize(
    "wrong",
    [{"archive_after": timedelta(1)}, {"archive": "x", "archive_after": timedelta(-1)}],
)
def test_a_policy_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="archive"):
        Policy(**wrong)  # type: ignore[arg-type]


def test_a_policy_is_stored_as_a_whole(conn: Connection, place: str) -> None:
    policy = Policy(timedelta(days=30), 1000, place, timedelta(hours=1))
    set_policy(conn, policy)
    assert retention_state(conn).policy == policy
    set_policy(conn, Policy(keep_messages=3))
    assert retention_state(conn).policy == Policy(keep_messages=3)
    numbered(conn, 5)
    assert remove_old(conn).number == 2
