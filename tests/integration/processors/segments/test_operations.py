"""A segmented processor under its operators: pause, reports, failures, the command line."""

from __future__ import annotations

from threading import Event
from typing import Any

import psycopg
import pytest

from milepost import Milepost, RecordedMessage, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.processors import admin
from milepost.processors.segments import keeper
from milepost.records import key_hash
from tests.integration.cli.command import Cli
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, Instance, leave_all, running
from tests.integration.processors.segments.claiming import KEY, masks, owners
from tests.waiting import wait_until

NAME = KEY.processor


def status(conn: Connection) -> admin.ProcessorStatus:
    (found,) = admin.list_processors(conn, "milepost", NAME)
    return found


@pytest.mark.usefixtures("quick_orders")
def test_it_is_paused_and_resumed(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    processor = mp.processor(NAME, segments=4)(leave_all)
    with running(processor):
        processor.wait_for(put(20, keys=20)[-1], timeout=30)
        admin.set_paused(conn, "milepost", KEY, is_paused=True)
        wait_until(lambda: status(conn).state == "paused")
        wait_until(lambda: _reported(conn) == "paused")
        put(20, keys=20)
        assert None not in owners(conn).values()  # it keeps its claims
        assert effects.count() == 20
        admin.set_paused(conn, "milepost", KEY, is_paused=False)
        effects.wait_for(40)


def _reported(conn: Connection) -> str:
    row = conn.execute("select state from milepost.processors").fetchone()
    return "" if row is None else row[0]


def test_the_list_shows_the_last_segment_and_counts_what_is_left(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    go_on = Event()

    @mp.processor(NAME, segments=4, delivery="at_least_once")
    def handle(messages: list[RecordedMessage], segment: Any) -> None:
        if segment.id == 2:
            go_on.wait(30)

    put(100, keys=50)
    mine = sum(1 for m in mp.read() if m.key is not None and _is_in(m.key, 2))
    with running(handle):
        try:
            wait_until(lambda: owners(conn) and status(conn).lag_messages == mine)
            found = status(conn)
            assert (found.state, found.segments) == ("running", 4)
            assert found.position == 0
        finally:
            go_on.set()
        wait_until(lambda: status(conn).lag_messages == 0)
    assert status(conn).state == "stopped"
    assert status(conn).handled == 100


def test_what_is_in_hand_when_it_is_stopped_is_counted(
    mp: Milepost, conn: Connection, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_hand, leaves, go_on = Event(), Event(), Event()
    leave = keeper.Keeper.leave

    def leave_and_tell(self: keeper.Keeper) -> None:
        leave(self)
        leaves.set()

    monkeypatch.setattr(keeper.Keeper, "leave", leave_and_tell)

    @mp.processor(NAME, segments=1, delivery="at_least_once")
    def handle(messages: list[RecordedMessage]) -> None:
        in_hand.set()
        go_on.wait(30)

    put(10)
    instance = Instance(handle)
    try:
        assert in_hand.wait(30)
        instance.stop.set()
        assert leaves.wait(30)
    finally:
        go_on.set()
    assert instance.ends() is None
    assert (status(conn).state, status(conn).handled) == ("stopped", 10)


def _is_in(key: str, segment: int) -> bool:
    return key_hash(key) & 3 == segment


def test_one_instance_that_stops_does_not_make_the_processor_look_stopped(
    mp: Milepost, conn: Connection
) -> None:
    processor = mp.processor(NAME, segments=4)(leave_all)
    with running(processor):
        wait_until(lambda: None not in owners(conn).values() and owners(conn))
        with running(processor):
            wait_until(lambda: status(conn).owner == "2 instances")
        conn.execute("update milepost.processors set state = 'stopped'")  # as it may report
        assert status(conn).state == "running"


def test_a_failing_handler_stops_the_instance_and_its_segments_are_given_back(
    mp: Milepost, conn: Connection, put: Put
) -> None:
    @mp.processor(NAME, segments=4, retry=Retry(limit=0))
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        if any(message.data["number"] == 7 for message in messages):
            raise ValueError("seven")

    put(20, keys=20)
    with pytest.raises(HandlerFailed, match="seven"):
        handle.run(until="caught_up")
    assert set(owners(conn).values()) == {None}
    assert status(conn).state == "failed"
    (failed,) = conn.execute(
        "select last_error from milepost.segments where last_error is not null"
    ).fetchall()
    assert "seven" in failed[0]


def test_what_fails_is_skipped_alone(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    @mp.processor(NAME, segments=4, retry=Retry(limit=1, first_seconds=0), on_failure="skip")
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        if any(message.data["number"] == 7 for message in messages):
            raise ValueError("seven")

    positions = put(20, keys=20)
    handle.run(until="caught_up")
    assert sorted(effects.positions()) == [p for n, p in enumerate(positions, 1) if n != 7]
    (letter,) = conn.execute("select position, attempts from milepost.dead_letters").fetchall()
    assert letter == (positions[6].position, 2)


def test_a_message_that_failed_is_never_overtaken_by_later_ones_of_its_segment(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    """What was taken with it is dropped with the claim; nothing after it is stored."""

    @mp.processor(NAME, segments=1, batch_size=2, retry=Retry(limit=0))
    def handle(messages: list[RecordedMessage], tx: Connection) -> None:
        leave_all(messages, tx)
        if any(message.data["number"] == 5 for message in messages):
            raise ValueError("five")

    positions = put(40, keys=1)
    instance = Instance(handle)
    assert isinstance(instance.ends(), HandlerFailed)
    assert effects.positions() == positions[:4]
    assert handle.position() == positions[3]


def test_a_lost_connection_of_one_thread_ends_nothing_for_good(
    mp: Milepost, conn: Connection, put: Put, effects: Effects
) -> None:
    processor = mp.processor(NAME, segments=4, claim_seconds=1.0)(leave_all)
    with running(processor):
        processor.wait_for(put(20, keys=20)[-1], timeout=30)
        for _ in range(3):
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = %s and random() < 0.5",
                [f"milepost {NAME}"],
            )
            processor.wait_for(put(20, keys=20)[-1], timeout=30)
    assert effects.count() == len(set(effects.positions())) == 80


def test_beats_that_fail_for_a_while_do_not_end_an_instance(
    mp: Milepost, conn: Connection, put: Put, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat, failures = keeper.Keeper.beat, iter([True, True])

    def failing(self: keeper.Keeper, conn: Connection) -> float:
        if next(failures, False):
            raise psycopg.errors.DeadlockDetected("a deadlock")
        return beat(self, conn)

    monkeypatch.setattr(keeper.Keeper, "beat", failing)
    put(20, keys=20)
    mp.processor(NAME, segments=4)(leave_all).run(until="caught_up")
    assert effects.count() == 20


def test_segments_are_listed_split_and_merged_on_the_command_line(
    mp: Milepost, conn: Connection, put: Put, cli: Cli, effects: Effects
) -> None:
    put(20, keys=20)
    mp.processor(NAME, segments=2)(leave_all).run(until="caught_up")
    assert "split segment 0 into 0 and 2" in cli.run("processors", "split", NAME, "0").stdout
    assert masks(conn) == {0: 3, 1: 1, 2: 3}
    listed = cli.run("processors", "segments", NAME, "--json").document()
    assert [(s["id"], s["mask"], s["lag_messages"]) for s in listed] == [
        (0, 3, 0), (1, 1, 0), (2, 3, 0),
    ]  # fmt: skip
    table = cli.run("processors", "segments", NAME).stdout
    assert "owner" in table
    refused = cli.run("processors", "merge", NAME, "1")
    assert (refused.code, "Merge that one first" in refused.stderr) == (1, True)
    assert "merged into segment 0" in cli.run("processors", "merge", NAME, "2").stdout
    assert "nothing to split" in cli.run("processors", "balance", NAME).stdout
    put(20, keys=20)
    assert "split segment" in cli.run("processors", "balance", NAME).stdout
    mp.processors[NAME].run(until="caught_up")
    assert effects.count() == 40


def test_segments_are_split_up_to_a_number(
    mp: Milepost, conn: Connection, put: Put, cli: Cli, effects: Effects
) -> None:
    put(20, keys=20)
    mp.processor(NAME, segments=3)(leave_all).run(until="caught_up")
    done = cli.run("processors", "split", NAME, "--to", "128")
    assert (done.code, done.stdout) == (0, f"{NAME}: 125 segments split, for 128 in all\n")
    assert masks(conn) == dict.fromkeys(range(128), 127)
    (free,) = conn.execute(
        "select count(*) from milepost.segments where owner is null and wanted_by is null"
    ).fetchone() or (0,)
    assert free == 128
    assert "nothing to split" in cli.run("processors", "split", NAME, "--to", "5").stdout
    assert cli.run("processors", "split", NAME, "1", "--to", "256").code == 2
    put(20, keys=20)
    mp.processors[NAME].run(until="caught_up")
    assert effects.count() == 40


def test_an_unsegmented_processor_has_no_segments_to_list_or_split(
    mp: Milepost, put: Put, cli: Cli
) -> None:
    put(1)
    mp.processor(NAME, delivery="at_least_once")(print).run(until="caught_up")
    assert "has no segments" in cli.run("processors", "segments", NAME).stdout
    for more in ([], ["--to", "8"]):
        refused = cli.run("processors", "split", NAME, *more)
        assert (refused.code, "not segmented" in refused.stderr) == (1, True)
