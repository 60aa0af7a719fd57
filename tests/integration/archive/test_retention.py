"""What is removed from the log, and what never is: a message that a consumer has not passed. A
reader is refused where it would be given less than there was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from milepost import Message, Milepost, Position, append, db
from milepost.archive import Policy, remove_old, retention_state, set_policy, unset_policy
from milepost.archive.retention import FIRST_STEP, LARGEST_STEP, next_step
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.db import Connection
from milepost.errors import NoRetention, ProcessorRunning, RangeRemoved
from milepost.log import Reader
from milepost.processors import admin
from milepost.records import RecordedMessage
from tests.waiting import wait_until

NOTHING = Policy(keep=timedelta(0))  # is kept, if nobody needs it


def numbered(conn: Connection, count: int) -> list[Position]:
    return append(conn, *(Message("Counted", {"n": n}) for n in range(count)))


def left(conn: Connection) -> list[Position]:
    rows = conn.execute("select transaction_id, position from milepost.messages order by 1, 2")
    return [Position(*row) for row in rows]


def ignore(messages: list[RecordedMessage], tx: Connection) -> None:
    """As a processor that has handled everything."""


def test_without_a_policy_nothing_is_removed(conn: Connection) -> None:
    positions = numbered(conn, 3)
    with pytest.raises(NoRetention, match="milepost retention set"):
        remove_old(conn)
    set_policy(conn, NOTHING)
    unset_policy(conn)
    with pytest.raises(NoRetention):
        remove_old(conn)
    assert left(conn) == positions


def test_what_is_older_than_the_policy_is_removed(conn: Connection) -> None:
    old, young = numbered(conn, 3), numbered(conn, 3)
    conn.execute(
        "update milepost.messages set recorded_at = recorded_at - interval '2 hours' "
        "where position = any(%s)",
        [[position.position for position in old]],
    )
    set_policy(conn, Policy(keep=timedelta(hours=1)))
    removal = remove_old(conn)
    assert (removal.number, removal.removed, left(conn)) == (3, old[-1], young)
    assert remove_old(conn).number == 0


def test_in_python_too_nothing_is_lost_by_leaving_something_out(mp: Milepost) -> None:
    with pytest.raises(ValueError, match=r"gone for ever.*no_archive=True"):
        mp.retention(keep=timedelta(days=1))
    with pytest.raises(ValueError, match="not both"):
        mp.retention(keep=timedelta(days=1), archive="/nowhere", no_archive=True)
    with mp.connect() as conn:
        assert retention_state(conn, mp.schema).policy is None
        mp.retention(keep=timedelta(days=1), no_archive=True)
        assert retention_state(conn, mp.schema).policy == Policy(timedelta(days=1))


def test_the_newest_messages_stay(conn: Connection) -> None:
    positions = numbered(conn, 10)
    set_policy(conn, Policy(keep_messages=4))
    assert remove_old(conn).number == 6
    assert left(conn) == positions[6:]


def test_with_both_conditions_both_kinds_stay(conn: Connection) -> None:
    positions = numbered(conn, 10)
    set_policy(conn, Policy(keep=timedelta(hours=1), keep_messages=4))
    assert remove_old(conn).number == 0
    set_policy(conn, Policy(keep=timedelta(0), keep_messages=4))
    assert remove_old(conn).number == 6
    assert left(conn) == positions[6:]


def test_what_is_in_flight_is_above_the_limit(mp: Milepost, conn: Connection) -> None:
    """A message that commits later may come to lie before one that is visible already."""
    (first,) = numbered(conn, 1)
    with mp.connect() as other:
        other.execute("begin")
        numbered(other, 1)
        numbered(conn, 1)
        set_policy(conn, NOTHING)
        assert remove_old(conn).removed == first
        set_policy(conn, Policy(keep_messages=0))
        assert remove_old(conn).number == 0
        other.execute("commit")
    assert len(left(conn)) == 2
    assert remove_old(conn).number == 2


@pytest.mark.parametrize("segments", [None, 4])
def test_nobody_loses_what_he_has_not_handled(
    mp: Milepost, conn: Connection, segments: int | None
) -> None:
    handled = numbered(conn, 20)
    processor = mp.processor("slow", segments=segments)(ignore)
    processor.run(until="caught_up")
    unhandled = numbered(conn, 20)
    set_policy(conn, NOTHING)
    state = retention_state(conn)
    assert {gate.consumer for gate in state.blocking} == {"slow"}
    assert len(state.blocking) == (segments or 1)
    assert remove_old(conn).removed == handled[-1]
    assert left(conn) == unhandled
    processor.run(until="caught_up")
    assert remove_old(conn).number == len(unhandled)


def test_the_slowest_segment_decides(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 9)
    store = PostgresCheckpointStore(conn, "milepost")
    for segment, place in enumerate((positions[7], positions[2], positions[5])):
        key = CheckpointKey("shared", 1, segment)
        store.first(key, lambda place=place: place, "somebody")  # type: ignore[misc]
    set_policy(conn, NOTHING)
    assert remove_old(conn).removed == positions[2]
    assert left(conn) == positions[3:]


def test_without_its_gate_a_processor_loses_messages(mp: Milepost, conn: Connection) -> None:
    """What the test above would see."""
    numbered(conn, 5)
    mp.processor("slow")(ignore).run(until="caught_up")
    numbered(conn, 5)
    conn.execute(
        "create or replace function milepost.retention_gates() returns table (consumer text, "
        'version integer, segment integer, transaction_id bigint, "position" bigint) '
        "language sql as 'select null, null::int, null::int, 1::bigint, 1::bigint where false'"
    )
    set_policy(conn, NOTHING)
    assert remove_old(conn).number == 10


def test_readers_are_refused_below_the_marker(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 10)
    reader = Reader(conn, batch_size=2)
    assert [message.position for message in reader.read().messages] == positions[:2]
    set_policy(conn, Policy(keep_messages=5))
    remove_old(conn)
    with pytest.raises(RangeRemoved, match=f"Start from {positions[4]} to read what is left"):
        reader.read()
    for start in ("beginning", positions[3]):
        with pytest.raises(RangeRemoved):
            list(mp.read(start))
    assert [message.position for message in mp.read(positions[4])] == positions[5:]


def test_a_removal_while_a_reader_reads_is_never_a_gap(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 5_000)
    set_policy(conn, NOTHING)
    with mp.connect() as other, ThreadPoolExecutor(1) as pool:
        removing = pool.submit(lambda: remove_by(other, 20))
        refused = 0
        after, place = Position.BEGINNING, 0
        # Or a remover that is held up would come when everything has been read.
        wait_until(lambda: retention_state(conn).removed > after)
        while place < len(positions):
            try:
                batch = Reader(conn, after, batch_size=7).read()
            except RangeRemoved:
                refused += 1
                after = retention_state(conn).removed
                place = positions.index(after) + 1
                continue
            found = [message.position for message in batch.messages]
            assert found == positions[place : place + len(found)]
            place += len(found)
            after = batch.reached
        assert removing.result(60) == len(positions)
    assert refused > 0


def remove_by(conn: Connection, step: int) -> int:
    removed = 0
    query = "select number from milepost.remove_messages(%s, milepost.retention_limit())"
    while number := db.one(conn.execute(query, [step]).fetchone())[0]:
        removed += number
    return removed


def test_a_new_processor_is_told_that_the_beginning_is_gone(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 4)
    set_policy(conn, Policy(keep_messages=2))
    remove_old(conn)
    with pytest.raises(RangeRemoved):
        mp.processor("late")(ignore).run(until="caught_up")
    assert retention_state(conn).gates == []  # and it keeps nothing
    mp.processor("later", start_from=positions[1])(ignore).run(until="caught_up")
    assert [gate.position for gate in retention_state(conn).gates] == [positions[-1]]


def test_no_processor_is_reset_to_what_is_gone(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 4)
    processor = mp.processor("done")(ignore)
    processor.run(until="caught_up")
    set_policy(conn, Policy(keep_messages=2))
    remove_old(conn)
    for gone in ("beginning", positions[0]):
        with pytest.raises(RangeRemoved), conn.transaction():
            processor.reset(gone, conn)
    with conn.transaction():
        processor.reset(positions[1], conn)
    assert processor.position() == positions[1]


def test_a_removal_waits_for_a_reset(mp: Milepost, conn: Connection) -> None:
    positions = numbered(conn, 10)
    mp.processor("done")(ignore).run(until="caught_up")
    set_policy(conn, NOTHING)
    with mp.connect() as operator, mp.connect() as other, ThreadPoolExecutor(1) as pool:
        with operator.transaction():
            operator.execute("select milepost.reset_processor('done', 1, row(%s, %s))",
                             [positions[2].transaction_id, positions[2].position])  # fmt: skip
            removing = pool.submit(lambda: remove_old(other))
            wait_until(lambda: is_waiting(conn, other))
        assert removing.result(60).removed == positions[2]
    assert left(conn) == positions[3:]


def is_waiting(conn: Connection, other: Connection) -> bool:
    query = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
    return bool(db.one(conn.execute(query, [other.info.backend_pid]).fetchone())[0])


def test_an_abandoned_processor_keeps_nothing(mp: Milepost, conn: Connection) -> None:
    processor = mp.processor("unused", segments=2)(ignore)
    processor.run(until="caught_up")
    numbered(conn, 5)
    key = CheckpointKey("unused", 1)
    set_policy(conn, NOTHING)
    assert remove_old(conn).number == 0
    admin.abandon(conn, "milepost", key)
    assert retention_state(conn).gates == []
    assert remove_old(conn).number == 5
    store = PostgresCheckpointStore(conn, "milepost")
    stored = store.store(key, Position.BEGINNING, Position(0, 1))
    assert stored is Answer.MISSING


def test_a_processor_that_runs_is_not_abandoned(mp: Milepost, conn: Connection) -> None:
    mp.processor("busy")(ignore).run(until="caught_up")
    conn.execute(
        "update milepost.processors set state = 'running', reported_at = clock_timestamp()"
    )
    with pytest.raises(ProcessorRunning, match="Stop it first"):
        admin.abandon(conn, "milepost", CheckpointKey("busy", 1))
    assert len(retention_state(conn).gates) == 1


def test_the_api_of_an_application(mp: Milepost, conn: Connection) -> None:
    numbered(conn, 5)
    mp.retention(keep_messages=2, no_archive=True)
    assert mp.remove_old().number == 3
    assert len(left(conn)) == 2


@pytest.mark.parametrize(
    "wrong",
    [{}, {"keep": timedelta(seconds=-1)}, {"keep_messages": -1}],
)
def test_a_policy_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"keep"):
        Policy(**wrong)  # type: ignore[arg-type]


def test_steps_fit_into_their_time() -> None:
    assert next_step(500, 0.001) == 1_000
    assert next_step(5000, 0.2) == 250
    assert next_step(LARGEST_STEP, 0.001) == LARGEST_STEP


def test_a_server_that_is_slow_to_answer_is_not_asked_for_single_messages() -> None:
    step = 500
    for _ in range(10):  # each call takes longer than a step should, whatever it removes
        step = next_step(step, 0.02)
    assert step == FIRST_STEP
