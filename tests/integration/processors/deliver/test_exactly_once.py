from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from milepost import Message, Milepost, Position, RecordedMessage, Retry
from milepost.db import AsyncConnection, Connection
from milepost.errors import HandlerFailed

pytestmark = pytest.mark.parametrize("order", ["append", "transaction"])

QUICK = Retry(limit=2, first_seconds=0.001, longest_seconds=0.01)


@pytest.fixture
def balances(conn: Connection) -> None:
    conn.execute("create table balances (account text primary key, amount bigint not null)")


def put(mp: Milepost, conn: Connection, count: int, **fields: Any) -> list[Position]:
    messages = [
        Message("Deposited", {"amount": n}, key=f"account-{n % 5}", **fields)
        for n in range(1, count + 1)
    ]
    return mp.append(conn, *messages)


def deposit(message: RecordedMessage, tx: Connection) -> None:
    tx.execute(
        "insert into balances values (%s, %s) on conflict (account) do update "
        "set amount = balances.amount + excluded.amount",
        [message.key, message.data["amount"]],
    )


def total(conn: Connection) -> int:
    row = conn.execute("select coalesce(sum(amount), 0)::bigint from balances").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("balances")
def test_a_batch_handler_gets_messages_in_order_and_the_transaction(
    mp: Milepost, conn: Connection
) -> None:
    seen: list[Position] = []

    @mp.processor("balances", batch_size=7)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        seen.extend(message.position for message in messages)
        for message in messages:
            deposit(message, tx)

    positions = put(mp, conn, 50)
    keep.run(until="caught_up")
    assert seen == positions
    assert total(conn) == sum(range(1, 51))
    assert keep.caught_up()
    keep.run(until="caught_up")
    assert total(conn) == sum(range(1, 51))


@pytest.mark.usefixtures("balances")
def test_an_async_handler_is_an_equal(mp: Milepost, conn: Connection) -> None:
    @mp.processor("balances", handle="message")
    async def keep(message: RecordedMessage, tx: AsyncConnection) -> None:
        await tx.execute(
            "insert into balances values (%s, %s) on conflict (account) do update "
            "set amount = balances.amount + excluded.amount",
            [message.key, message.data["amount"]],
        )

    put(mp, conn, 20)
    keep.run(until="caught_up")
    assert total(conn) == sum(range(1, 21))


@pytest.mark.usefixtures("balances")
def test_a_failing_message_stops_the_processor_with_everything_before_it_done(
    mp: Milepost, conn: Connection
) -> None:
    @mp.processor("balances", retry=QUICK)
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            deposit(message, tx)
            if message.data["amount"] == 10:
                raise RuntimeError("no tens")

    positions = put(mp, conn, 20)
    with pytest.raises(HandlerFailed, match="no tens") as caught:
        keep.run(until="caught_up")
    assert caught.value.position == str(positions[9])
    assert caught.value.attempts == 3
    assert keep.position() == positions[8]
    assert total(conn) == sum(range(1, 10))


@pytest.mark.usefixtures("balances")
def test_skip_sets_the_message_aside_with_its_error(mp: Milepost, conn: Connection) -> None:
    @mp.processor("balances", retry=QUICK, on_failure="skip")
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            deposit(message, tx)
            if message.data["amount"] == 10:
                raise RuntimeError("no tens")

    positions = put(mp, conn, 20)
    keep.run(until="caught_up")
    assert total(conn) == sum(range(1, 21)) - 10
    row = conn.execute(
        "select transaction_id, position, error, traceback, attempts from milepost.dead_letters"
    ).fetchone()
    assert row is not None
    assert Position(row[0], row[1]) == positions[9]
    assert row[2] == "RuntimeError: no tens"
    assert "in keep" in row[3]
    assert row[4] == 3


def test_what_is_filtered_out_moves_the_checkpoint(mp: Milepost, conn: Connection) -> None:
    @mp.processor("picky", topics=["wanted"])
    def keep(messages: list[RecordedMessage], tx: Connection) -> None:
        raise AssertionError("nothing is wanted")

    positions = put(mp, conn, 20, topic="unwanted")
    keep.run(until="caught_up")
    assert keep.position() == positions[-1]


def test_a_handler_with_a_yield_is_refused_instead_of_doing_nothing(
    mp: Milepost, conn: Connection
) -> None:
    """Also where a function hides it, which registering cannot see."""

    def hidden(messages: list[RecordedMessage], tx: Connection) -> Iterator[None]:
        yield

    keep = mp.processor("generator", retry=QUICK)(lambda messages, tx: hidden(messages, tx))
    put(mp, conn, 1)
    with pytest.raises(HandlerFailed, match="holds a yield"):
        keep.run(until="caught_up")
