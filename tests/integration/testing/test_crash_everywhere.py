"""`crash_everywhere` finds what is doubled or lost, says where, and lets correct handlers pass."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import psycopg
import pytest

from milepost import (
    LATEST,
    Checkpointing,
    FencedUpsert,
    Job,
    Message,
    Milepost,
    Position,
    Retry,
    Segment,
    Trigger,
    append,
)
from milepost import put as put_job
from milepost.db import AsyncConnection, Connection
from milepost.errors import CrashFound, CrashTestFailed, NoTestDatabase
from milepost.processors import Processor
from milepost.processors.self_checkpointing.api import Report
from milepost.queue import Worker
from milepost.records import RecordedMessage, TakenJob
from milepost.testing import Outside, crash_everywhere

pytestmark = pytest.mark.parametrize("order", ["append"])
ORDERS = [Message("OrderPlaced", {"order": n, "total": 40 + n}, key=f"o-{n}") for n in (1, 2)]
MAILS = [Job("mails", 1), Job("mails", 2)]
ADD = "insert into bills (number, total) values (%s, %s)"
MAIL = "insert into mails (number) values (%s)"
ONCE = "insert into mails (number) values (%s) on conflict do nothing"


@pytest.fixture(autouse=True)
def _tables(mp: Milepost) -> None:
    with mp.connect() as conn:
        conn.execute("create table bills (id serial primary key, number int, total int)")
        conn.execute("create table mails (number int unique, at timestamptz default now())")
        conn.execute("create table log (number int)")


def found_in(found: pytest.ExceptionInfo[CrashFound], *words: str) -> None:
    text = str(found.value)
    for word in words:
        assert word in text, text


def test_effects_through_tx_pass(mp: Milepost) -> None:
    @mp.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            if message.type == "Billed":  # it reads what it has appended
                continue
            tx.execute(ADD, [message.data["order"], message.data["total"]])
            append(tx, Message("Billed", message.data))
        put_job(tx, *MAILS)

    report = crash_everywhere(bill, ORDERS[:1])
    assert report.points >= report.statements > 8
    assert report.unreached == 0
    assert report.ignored == ("bills.id", "mails.at")
    with mp.connect() as conn:  # as after one run
        assert conn.execute("select number, total from bills").fetchall() == [(1, 41)]


def test_a_planted_double_is_found_soon(mp: Milepost, url: str) -> None:
    @mp.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        tx.execute(ADD, [messages[0].data["order"], messages[0].data["total"]])
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("insert into log values (%s)", [messages[0].data["order"]])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS)
    assert found.value.crashes < 8  # each takes a fifth of a second on a quiet machine
    assert found.value.statement == "insert into log values (%s)"
    assert found.value.side == "after"
    found_in(
        found,
        "processor 'billing': an effect was doubled.",
        "killed after statement",
        "    insert into log values (%s)\n    sent by test_crash_everywhere.py:",
        '  table log: 2 rows instead of 1\n    too many {"number": 1}',
        "on a connection of its own",
        "send it through `tx`",
    )


def test_an_async_handler_passes_and_its_double_is_found(mp: Milepost, url: str) -> None:
    @mp.processor("billing", handle="message")
    async def bill(message: RecordedMessage, tx: AsyncConnection) -> None:
        await tx.execute(ADD, [message.data["order"], message.data["total"]])

    assert crash_everywhere(bill, ORDERS[:1]).unreached == 0

    @bill.handler
    async def note(message: RecordedMessage, tx: AsyncConnection) -> None:
        async with await psycopg.AsyncConnection.connect(url) as own:
            await own.execute("insert into log values (%s)", [message.data["order"]])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS[:1])
    found_in(found, "an effect was doubled", "    COMMIT\n    sent by test_crash_everywhere.py:")


def test_an_effect_that_is_lost_is_found(mp: Milepost, url: str) -> None:
    @mp.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        with psycopg.connect(url, autocommit=True) as own:  # it is noted as done before it is
            is_new = own.execute(ONCE, [messages[0].data["order"]]).rowcount
        if is_new:
            tx.execute(ADD, [messages[0].data["order"], 1])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS[:1])
    found_in(found, "an effect was lost", "  table bills: 0 rows instead of 1\n    missing")


def test_a_handler_that_fails_after_a_crash_is_found(mp: Milepost, url: str) -> None:
    @mp.processor("billing", retry=Retry(limit=0))
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        with psycopg.connect(url, autocommit=True) as own:
            own.execute(MAIL, [messages[0].data["order"]])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(bill, ORDERS[:1])
    found_in(found, "it cannot go on after it", "duplicate key value violates unique constraint")


def test_a_worker_with_tx_passes(mp: Milepost) -> None:
    @mp.worker("mails")
    def send(job: TakenJob, tx: Connection) -> None:
        tx.execute(MAIL, [job.content])

    assert crash_everywhere(send, MAILS[:1]).points > 4


def test_a_worker_without_tx_must_be_idempotent(mp: Milepost) -> None:
    @mp.worker("mails")
    def send(job: TakenJob) -> None:
        with mp.connect() as conn:
            conn.execute(ONCE, [job.content])

    @mp.worker("notes")
    def note(job: TakenJob) -> None:
        with mp.connect() as conn:
            conn.execute("insert into log values (%s)", [job.content])

    assert crash_everywhere(send, MAILS[:1]).points > 4
    with pytest.raises(CrashFound) as found:
        crash_everywhere(note, [Job("notes", 1)])
    found_in(
        found, "worker 'notes': an effect was doubled", "has no `tx`", "on conflict do nothing"
    )


def test_an_at_least_once_processor_changes_something_outside(mp: Milepost, tmp_path: Path) -> None:
    file = tmp_path / "sent"
    file.write_text("")

    @mp.processor("mailing", delivery="at_least_once")
    def send(messages: list[RecordedMessage]) -> None:
        with file.open("a") as out:
            out.writelines(f"{message.data['order']}\n" for message in messages)

    outside = Outside(file.read_text, reset=partial(file.write_text, ""))
    with pytest.raises(CrashFound) as found:
        crash_everywhere(send, ORDERS, outside=outside)
    found_in(found, "outside the database", r"1\n2\n1\n2\n", "is called at least once")


class Counts(Checkpointing):
    """Counts in memory, and stores the counts with the position that they include."""

    def __init__(self, mp: Milepost, *, forgets_position: bool) -> None:
        self.mp, self.forgets_position = mp, forgets_position
        self.counts: Counter[str] = Counter()
        self.position = Position.BEGINNING

    def __call__(self, messages: list[RecordedMessage]) -> None:
        for message in messages:
            if message.position > self.position or self.forgets_position:
                self.counts[message.type] += 1
                self.position = message.position

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        with self.mp.connect() as conn:
            row = conn.execute("select number, total from bills").fetchone()
        if row is not None:
            self.counts["OrderPlaced"], self.position = row[1], Position(0, row[0])

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        with self.mp.connect() as conn, conn.transaction():
            conn.execute("delete from bills")
            conn.execute(ADD, [self.position.position, self.counts["OrderPlaced"]])
        return LATEST


@pytest.mark.parametrize("forgets_position", [False, True])
def test_a_self_checkpointing_handler(mp: Milepost, forgets_position: bool) -> None:
    counts = Counts(mp, forgets_position=forgets_position)
    processor = mp.processor("counts", delivery="at_least_once")(counts)
    if not forgets_position:
        assert crash_everywhere(processor, ORDERS, most=40).points == 40
        return
    with pytest.raises(CrashFound) as found:
        crash_everywhere(processor, ORDERS)
    found_in(found, '    found    {"number": 2, "total": 4', '    expected {"number": 2, ')


def test_what_cannot_be_judged_is_refused(mp: Milepost, tmp_path: Path) -> None:
    runs = tmp_path / "runs"

    @mp.processor("growing")
    def write_some(messages: list[RecordedMessage], tx: Connection) -> None:
        with runs.open("a") as out:
            out.write(".")
        for _ in runs.read_text():
            tx.execute("insert into log values (1)")

    with pytest.raises(CrashTestFailed, match="without a crash have different effects"):
        crash_everywhere(write_some, ORDERS)

    other = Milepost("postgresql:///production")

    @other.processor("billing")
    def bill(messages: list[RecordedMessage], tx: Connection) -> None: ...

    with pytest.raises(NoTestDatabase, match=r"'production' was not made by milepost\.testing"):
        crash_everywhere(bill, ORDERS)
    with pytest.raises(TypeError, match="expected a processor or a worker"):
        crash_everywhere(print, ORDERS)  # type: ignore[arg-type]


def test_a_handler_that_always_fails_is_not_blamed_on_a_crash(mp: Milepost) -> None:
    @mp.processor("billing", on_failure="stop", retry=Retry(limit=0))
    def bill(messages: list[RecordedMessage], tx: Connection) -> None:
        raise ValueError("no such order")

    with pytest.raises(CrashTestFailed, match=r"(?s)fails without any crash.*no such order"):
        crash_everywhere(bill, ORDERS)


class Balances(Checkpointing):
    """Right: its rows hold the epoch of the claim that has written them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.upsert = FencedUpsert("balances", key=["account"], columns=["amount", "place"])

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self.trigger = trigger
        with psycopg.connect(self.url) as conn:
            rows = conn.execute("select account, amount, place from balances").fetchall()
        self.held = {account: (amount, place) for account, amount, place in rows}

    def __call__(self, messages: list[RecordedMessage]) -> None:
        for message in messages:
            amount, place = self.held.get(message.key or "", (0, -1))
            if message.position.position > place:
                total = amount + message.data["total"]
                self.held[message.key or ""] = (total, message.position.position)

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        with psycopg.connect(self.url) as conn, conn.cursor() as cursor:
            rows = [(account, *row) for account, row in self.held.items()]
            self.upsert.write(cursor, self.trigger, rows)
        return LATEST


def test_an_epoch_that_differs_by_itself_is_not_blamed(mp: Milepost, url: str) -> None:
    with mp.connect() as conn:
        conn.execute(
            "create table balances (account text primary key, amount int, place int, epoch bigint)"
        )
    processor = mp.processor("balances", delivery="at_least_once")(Balances(url))
    assert "balances.epoch" in crash_everywhere(processor, ORDERS, most=20).ignored


def test_an_attempt_that_differs_by_itself_is_not_blamed(mp: Milepost) -> None:
    @mp.worker("mails")
    def send(job: TakenJob, tx: Connection) -> None:
        tx.execute(ADD, [job.content, job.attempt])

    assert "bills.total" in crash_everywhere(send, MAILS[:1]).ignored


def test_state_that_lives_from_batch_to_batch_is_found(mp: Milepost) -> None:
    totals: Counter[str] = Counter()

    @mp.processor("totals")
    def add(messages: list[RecordedMessage], tx: Connection) -> None:
        if messages[0].data["order"] == 1:  # so that what it had added before a failure is gone
            totals.clear()
        for message in messages:
            totals["all"] += message.data["total"]
        tx.execute("delete from bills")
        tx.execute(ADD, [0, totals["all"]])

    with pytest.raises(CrashFound) as found:
        crash_everywhere(add, ORDERS)
    found_in(
        found,
        "processor 'totals', in batches of one message:",
        '    found    {"number": 0, "total": 42}\n    expected {"number": 0, "total": 83}',
    )


def running_total(mp: Milepost, *, is_worker: bool) -> Worker | Processor:
    """What it holds is set from the table in a new process only."""
    totals: Counter[str] = Counter()

    def add(tx: Connection, amount: int) -> None:
        if not totals:
            row = tx.execute("select total from bills").fetchone()
            totals["all"] = 0 if row is None else row[0]
        totals["all"] += amount
        tx.execute("delete from bills")
        tx.execute(ADD, [0, totals["all"]])

    if is_worker:
        return mp.worker("mails")(lambda job, tx: add(tx, job.content))
    return mp.processor("totals")(lambda messages, tx: add(tx, len(messages)))


@pytest.mark.parametrize("is_worker", [False, True])
def test_memory_ahead_of_a_lost_transaction_is_found(mp: Milepost, is_worker: bool) -> None:
    with pytest.raises(CrashFound) as found:
        crash_everywhere(
            running_total(mp, is_worker=is_worker), MAILS[:1] if is_worker else ORDERS[:1]
        )
    assert found.value.side == "lost"
    found_in(
        found,
        "The connection was lost before statement",
        "The process continued, with what it held in memory",
        "memory",
        '    found    {"number": 0, "total": 2}',
    )


def test_the_crashes_can_be_limited(mp: Milepost) -> None:
    @mp.processor("billing", handle="message")
    def bill(message: RecordedMessage, tx: Connection) -> None:
        tx.execute(ADD, [message.data["order"], message.data["total"]])

    report = crash_everywhere(bill, ORDERS, most=4, ignore=["total", "mails.at", "nowhere"])
    assert (report.points, report.unreached) == (4, 0)
    assert report.left_out > 10
    assert report.ignored == ("bills.id", "bills.total", "mails.at")
    assert f"4 of {4 + report.left_out} crashes" in str(report)
    with pytest.raises(ValueError, match="most is 0"):
        crash_everywhere(bill, ORDERS, most=0)
