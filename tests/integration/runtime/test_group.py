"""Members of one process: one that fails does not stop the others, and all catch up together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from milepost import Job, Message, Milepost, RecordedMessage, Retry, TakenJob
from milepost.db import Connection
from milepost.errors import HandlerFailed, SparkDriverEnded, StopTimedOut
from milepost.runtime import Group, Until
from milepost.sql import Activity, LogOrder
from tests.waiting import wait_until

SOON = Retry(first_seconds=0.05, longest_seconds=0.1)
NEVER_AGAIN = Retry(limit=0)


@pytest.fixture
def order() -> LogOrder:
    return "append"


@contextmanager
def running(group: Group) -> Iterator[list[BaseException]]:
    """In a thread; what it raised at its end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            group.run()
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield raised
    finally:
        group.stop.set()
        thread.join(60)
        assert not thread.is_alive()


def append(mp: Milepost, conn: Connection, number: int, topic: str = "default") -> None:
    mp.append(conn, *(Message("T", {"n": n}, topic=topic) for n in range(number)))


def test_a_member_that_fails_is_restarted_and_the_others_go_on(
    mp: Milepost, conn: Connection
) -> None:
    failures, handled, sick = [0], [0], [0]

    @mp.processor("healthy")
    def healthy(messages: list[RecordedMessage], tx: Connection) -> None:
        handled[0] += len(messages)

    @mp.processor("sick", retry=NEVER_AGAIN)
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        if failures[0] < 3:
            failures[0] += 1
            raise RuntimeError("not yet")
        sick[0] += len(messages)

    append(mp, conn, 5)
    with running(Group(mp.members(), restart=SOON)) as raised:
        wait_until(lambda: (handled[0], sick[0]) == (5, 5))
        append(mp, conn, 2)
        wait_until(lambda: (handled[0], sick[0]) == (7, 7))
    assert raised == []


class Ended:
    """A member whose Spark has ended."""

    name = "ended"
    activity: Activity = "pipeline"
    own_connections = 0

    def run(self, until: Until, stop: threading.Event) -> None:
        raise SparkDriverEnded("signal 9 ended it")

    def caught_up(self) -> bool:
        return False


def test_an_error_that_ends_the_process_stops_all_members(mp: Milepost) -> None:
    """To restart the member would not help: what it lacks is gone from the process."""
    mp.processor("healthy")(print)
    with pytest.raises(SparkDriverEnded):
        Group([*mp.members(), Ended()], restart=SOON).run()


def test_a_member_that_still_fails_at_the_stop_is_what_is_raised(
    mp: Milepost, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if another member does not stop in time, which is logged."""
    caplog.set_level(logging.INFO)
    has_begun, may_end = threading.Event(), threading.Event()

    @mp.processor("sick", retry=NEVER_AGAIN)
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("the first cause")

    @mp.processor("slow")
    def slow(messages: list[RecordedMessage], tx: Connection) -> None:
        has_begun.set()
        may_end.wait(60)

    append(mp, conn, 1)
    long = Retry(first_seconds=60.0, longest_seconds=60.0)
    with running(Group(mp.members(), stop_seconds=0.2, restart=long)) as raised:
        assert has_begun.wait(30)
        wait_until(lambda: "restarts in" in caplog.text)
    may_end.set()
    (error,) = raised
    assert isinstance(error, HandlerFailed)
    assert "the first cause" in str(error)
    assert "slow did not finish within 0.2 s" in caplog.text


def test_a_stop_that_takes_too_long_is_raised_if_nothing_failed(
    mp: Milepost, conn: Connection
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    @mp.processor("slow")
    def slow(messages: list[RecordedMessage], tx: Connection) -> None:
        has_begun.set()
        may_end.wait(60)

    append(mp, conn, 1)
    with running(Group(mp.members(), stop_seconds=0.2)) as raised:
        assert has_begun.wait(30)
    may_end.set()
    assert [type(error) for error in raised] == [StopTimedOut]


def test_what_members_append_and_put_for_each_other_is_handled_before_the_end(
    mp: Milepost, conn: Connection
) -> None:
    """Against the order in which they are named: each has caught up long before its turn comes."""
    done: list[int] = []

    @mp.processor("last", topics=["c"])
    def last(messages: list[RecordedMessage], tx: Connection) -> None:
        done.extend(message.data["n"] for message in messages)

    @mp.worker("middle")
    def middle(job: TakenJob, tx: Connection) -> None:
        mp.append(tx, Message("T", {"n": job.content}, topic="c"))

    @mp.processor("first", topics=["a"])
    def first(messages: list[RecordedMessage], tx: Connection) -> None:
        time.sleep(0.3)  # the others find nothing meanwhile
        mp.put(tx, *(Job("middle", message.data["n"]) for message in messages))

    append(mp, conn, 10, topic="a")
    mp.run(until="caught_up")
    assert sorted(done) == list(range(10))


def test_a_processor_that_appends_for_itself_is_run_to_its_end(
    mp: Milepost, conn: Connection
) -> None:
    seen: list[int] = []

    @mp.processor("countdown")
    def countdown(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            seen.append(message.data["n"])
            if message.data["n"]:
                mp.append(tx, Message("T", {"n": message.data["n"] - 1}))

    mp.append(conn, Message("T", {"n": 6}))
    mp.run(until="drained")
    assert seen == [6, 5, 4, 3, 2, 1, 0]


def test_it_ends_though_others_go_on_appending(mp: Milepost, url: str, conn: Connection) -> None:
    is_over = threading.Event()

    def write() -> None:
        with Milepost(url).connect() as own:
            while not is_over.is_set():
                append(mp, own, 1)

    mp.processor("patient")(lambda *_: None)
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        ended = threading.Thread(target=mp.run, kwargs={"until": "caught_up"}, daemon=True)
        ended.start()
        ended.join(60)
        assert not ended.is_alive()
    finally:
        is_over.set()
        writer.join(30)


def test_a_failure_ends_a_run_that_ends_by_itself_after_the_others(
    mp: Milepost, conn: Connection
) -> None:
    handled = [0]

    @mp.processor("sick", retry=NEVER_AGAIN)
    def fail(messages: list[RecordedMessage], tx: Connection) -> None:
        raise RuntimeError("never")

    @mp.processor("healthy")
    def healthy(messages: list[RecordedMessage], tx: Connection) -> None:
        time.sleep(0.2)
        handled[0] += len(messages)

    append(mp, conn, 3)
    with pytest.raises(HandlerFailed, match="never"):
        mp.run(until="caught_up")
    assert handled[0] == 3
