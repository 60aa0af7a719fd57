"""Handlers and Django's ORM share one transaction with the checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import get_ident
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, close_old_connections, connection, connections, transaction

from milepost import Job, Message, Milepost, Retry
from milepost.contrib.django import append, put
from milepost.errors import HandlerFailed
from milepost.runtime import Timing
from tests.integration.contrib.django.billing import Messages, bill, noting, place, process, totals
from tests.integration.contrib.django.shop.models import Order


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05)


def failure(mp: Milepost, handler: Callable[[Messages, Any], None]) -> str:
    with pytest.raises(HandlerFailed) as raised:
        process(mp, handler, retry=Retry(limit=0))
    with mp.connect() as conn:
        moved = conn.execute("select from milepost.checkpoints where position > 0")
        assert moved.fetchall() == []
    return str(raised.value)


def test_orm_effects_commit_with_the_checkpoint(mp: Milepost) -> None:
    place(1, 2)
    process(mp, bill)
    assert totals() == {1: 10, 2: 20}


def test_orm_effects_of_a_handler_that_raises_are_undone(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        raise RuntimeError("after the effect")

    assert "after the effect" in failure(mp, handle)
    assert totals() == {}


def test_tx_is_the_connection_of_the_alias_in_the_thread_of_the_handler(mp: Milepost) -> None:
    place(1)
    seen: list[Any] = []

    def handle(messages: Messages, tx: Any) -> None:
        with tx.cursor() as cursor:
            cursor.execute("select pg_current_xact_id_if_assigned() is not null")
            seen.extend(cursor.fetchone())
        seen.append(tx is connections["default"])
        seen.append(isinstance(tx.connection, psycopg.Connection))

    process(mp, handle)
    assert seen == [True, True, True]


def test_the_threads_own_connection_is_there_again_afterwards(mp: Milepost) -> None:
    place(1)
    own = connections["default"]
    thread = get_ident()
    seen: list[Any] = []

    def handle(messages: Messages, tx: Any) -> None:
        seen.extend([get_ident(), tx])

    mp.processor("billing")(handle)
    mp.processors["billing"].run("caught_up")
    assert seen[0] == thread
    assert seen[1] is not own
    assert connections["default"] is own
    with pytest.raises(Exception, match="after the end of the handler's transaction"):
        seen[1].cursor()


def test_atomic_in_a_handler_is_a_savepoint(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        with pytest.raises(IntegrityError), transaction.atomic():
            Order.objects.create(number=1)
        with transaction.atomic(), transaction.atomic():
            Order.objects.create(number=7)

    process(mp, handle)
    assert totals() == {1: 10, 7: 0}


def test_a_durable_block_is_refused(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        with transaction.atomic(durable=True):
            bill(messages)

    assert "durable atomic block cannot be nested" in failure(mp, handle)


@pytest.mark.parametrize(
    ("call", "end"),
    [
        ("commit()", transaction.commit),
        ("rollback()", transaction.rollback),
        ("close()", lambda: connection.close()),
        ("set_autocommit()", lambda: transaction.set_autocommit(True)),
    ],
)
@pytest.mark.parametrize("is_caught", [False, True])
def test_a_handler_cannot_end_the_transaction(
    mp: Milepost, call: str, end: Callable[[], None], is_caught: bool
) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        if not is_caught:
            end()
        with pytest.raises(Exception, match="Remove the call"):
            end()

    text = failure(mp, handle)
    assert f"{call} was called on the connection 'default' of Django" in text
    assert totals() == {}


def test_close_old_connections_leaves_the_transaction_alone(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        close_old_connections()
        bill(messages)

    process(mp, handle)
    assert totals() == {1: 10}


def test_a_database_error_that_a_handler_catches_commits_nothing(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        with pytest.raises(IntegrityError):
            Order.objects.create(number=1)

    assert "Put what may fail into" in failure(mp, handle)
    assert totals() == {}


def test_a_rollback_that_a_handler_asks_for_is_an_error(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        transaction.set_rollback(True)

    assert "set_rollback(True)" in failure(mp, handle)
    assert totals() == {}


def test_on_commit_is_called_after_the_commit_and_outside_of_the_transaction(mp: Milepost) -> None:
    place(1)
    seen: list[Any] = []

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        transaction.on_commit(lambda: seen.append((totals(), connection.in_atomic_block)))
        with contextlib.suppress(RuntimeError), transaction.atomic():
            transaction.on_commit(lambda: seen.append("undone"))
            raise RuntimeError
        assert not seen

    process(mp, handle)
    assert seen == [({1: 10}, False)]


def test_on_commit_of_a_handler_that_fails_is_not_called(mp: Milepost) -> None:
    place(1)
    seen: list[str] = []

    def handle(messages: Messages, tx: Any) -> None:
        transaction.on_commit(lambda: seen.append("called"))
        raise RuntimeError("too late")

    failure(mp, handle)
    assert seen == []


def test_a_failing_callback_is_logged_and_harms_nothing(
    mp: Milepost, caplog: pytest.LogCaptureFixture
) -> None:
    place(1, 2)
    seen: list[str] = []

    def fail() -> None:
        raise RuntimeError("no mail today")

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        transaction.on_commit(fail)
        transaction.on_commit(lambda: seen.append("called"))

    process(mp, handle)
    assert (totals(), seen) == ({1: 10, 2: 20}, ["called"])
    assert "no mail today" in caplog.text


def test_append_and_put_in_a_handler_are_part_of_its_transaction(mp: Milepost) -> None:
    place(1)

    def handle(messages: Messages, tx: Any) -> None:
        if messages[0].type == "OrderPlaced":
            append(*(Message("OrderBilled", number) for number in range(300)))
            put(*(Job("mail", number) for number in range(300)))

    process(mp, handle)
    assert sum(message.type == "OrderBilled" for message in mp.read()) == 300
    with mp.connect() as conn:
        row = conn.execute("select count(*) from milepost.jobs").fetchone()
    assert row == (300,)


def test_segments_are_handled_concurrently_each_on_its_own_connection(mp: Milepost) -> None:
    with transaction.atomic():
        append(*(Message("OrderPlaced", {"number": n}, key=f"k{n}") for n in range(200)))
    process(mp, bill, segments=4, batch_size=10)
    assert totals() == {number: 10 * number for number in range(200)}


def test_async_handlers_are_refused_unless_they_do_without_the_orm(mp: Milepost) -> None:
    async def handle(messages: Messages, tx: Any) -> None: ...

    async def work(job: Any, tx: Any) -> None: ...

    with pytest.raises(TypeError, match="Make the handler a def"):
        mp.processor("billing")(handle)
    with pytest.raises(TypeError, match="Make the handler a def"):
        mp.worker("letters")(work)
    mp.processor("plain", session=None)(handle)
    mp.worker("post", session=None)(work)


def test_without_the_orm_tx_is_a_psycopg_connection(project: None) -> None:
    mp = Milepost.from_django(orm=False)
    place(1)
    seen: list[Any] = []
    process(mp, noting(seen))
    assert [type(each) for each in seen] == [psycopg.Connection]


def test_a_connection_that_is_lost_in_a_handler_is_not_its_failure(mp: Milepost) -> None:
    """Django raises an error of its own for psycopg's."""
    place(1)
    calls: list[int] = []

    def handle(messages: Messages, tx: Any) -> None:
        calls.append(tx.connection.info.backend_pid)
        bill(messages)
        if len(calls) == 1:
            with mp.connect() as other:
                other.execute("select pg_terminate_backend(%s)", [calls[0]])
        Order.objects.count()

    process(mp, handle, retry=Retry(limit=0))
    assert (totals(), len(calls)) == ({1: 10}, 2)
