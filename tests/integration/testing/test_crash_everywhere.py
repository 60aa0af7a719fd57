"""`crash_everywhere` finds what is doubled or lost, says where, and lets correct handlers pass."""

from __future__ import annotations

import time

import psycopg
import pytest

from milepost import Job, Message, Milepost
from milepost.db import AsyncConnection, Connection
from milepost.errors import CrashFound
from milepost.records import RecordedMessage, TakenJob
from milepost.testing import crash_everywhere

pytestmark = pytest.mark.parametrize("order", ["append"])
ORDERS = [Message("OrderPlaced", {"order": n, "total": 40 + n}, key=f"o-{n}") for n in (1, 2)]
ADD = "insert into bills (number, total) values (%s, %s)"


@pytest.fixture(autouse=True)
def _tables(mp: Milepost) -> None:
    with mp.connect() as conn:
        conn.execute("create table bills (id serial primary key, number int, total int)")
        conn.execute("create table mails (number int, at timestamptz default now())")


def test_a_handler_that_writes_through_tx_passes(mp: Milepost) -> None:
    @mp.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(ADD, [message.data["order"], message.data["total"]])

    report = crash_everywhere(bill, ORDERS)
    print(report, report.unreached)
    assert report.points > report.statements
    assert report.unreached == 0
    assert report.ignored == ("bills.id", "mails.at")
    with mp.connect() as conn:  # as after one run
        assert conn.execute("select number, total from bills").fetchall() == [(1, 41), (2, 42)]


def test_a_planted_double_is_found_within_seconds(mp: Milepost, url: str) -> None:
    @mp.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(ADD, [message.data["order"], message.data["total"]])
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("insert into mails (number) values (%s)", [messages[0].data["order"]])

    began = time.monotonic()
    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS)
    print(time.monotonic() - began)
    assert time.monotonic() - began < 5
    print(found.value)


def test_an_async_handler_passes(mp: Milepost) -> None:
    @mp.processor("billing")
    async def bill(messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        for message in messages:
            await tx.execute(ADD, [message.data["order"], message.data["total"]])

    print(crash_everywhere(bill, ORDERS[:1]))


def test_worker_tx(mp: Milepost) -> None:
    @mp.worker("mails")
    def send(job: TakenJob, tx: Connection) -> None:
        tx.execute("insert into mails (number) values (%s)", [job.content])

    r = crash_everywhere(send, [Job("mails", 1), Job("mails", 2)])
    print(r, r.unreached)


def test_worker_without(mp: Milepost) -> None:
    @mp.worker("mails")
    def send(job: TakenJob) -> None:
        with mp.connect() as conn:
            conn.execute("insert into mails (number) values (%s)", [job.content])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(send, [Job("mails", 1), Job("mails", 2)])
    print(found.value)


def test_alo(mp: Milepost) -> None:
    @mp.processor("billing", delivery="at_least_once")
    def bill(messages: list[RecordedMessage]) -> None:
        with mp.connect() as conn:
            for message in messages:
                conn.execute(ADD, [message.data["order"], message.data["total"]])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS)
    print(found.value)
