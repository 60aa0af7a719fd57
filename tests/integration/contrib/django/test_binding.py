"""Handlers and Django's ORM share one transaction with the checkpoint, or with the end of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import get_ident
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import IntegrityError, close_old_connections, connection, connections, transaction
from django.db.backends.postgresql.psycopg_any import get_adapters_template
from django.db.backends.signals import connection_created
from psycopg.types.range import Range

from milepost import Job, Message, Milepost, Retry
from milepost.contrib.django import append, put
from milepost.errors import HandlerFailed
from milepost.records import RecordedMessage
from milepost.runtime import Timing
from tests.integration.contrib.django.shop.models import Order

Messages = list[RecordedMessage]


@pytest.fixture
def timing() -> Timing:
    return Timing(orders_seconds=0.05)


def place(*numbers: int) -> None:
    with transaction.atomic():
        append(*(Message("OrderPlaced", {"number": number}) for number in numbers))


def bill(messages: Messages, tx: Any = None) -> None:
    for message in messages:
        Order.objects.update_or_create(
            number=message.data["number"], defaults={"total": 10 * message.data["number"]}
        )


def process(mp: Milepost, handler: Callable[[Messages, Any], None], **options: Any) -> None:
    mp.processor("billing", **options)(handler)
    mp.run(until="caught_up", fail_fast=True)


def noting(seen: list[Any]) -> Callable[[Messages, Any], None]:
    def handle(messages: Messages, tx: Any) -> None:
        seen.append(tx)

    return handle


def totals() -> dict[int, int]:
    return dict(Order.objects.values_list("number", "total"))


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


def test_values_are_converted_as_on_any_connection_of_django(mp: Milepost) -> None:
    place(1)
    when = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
    opened = Range(when, when + timedelta(hours=1))
    fields = {"placed_at": when, "details": {"a": [1]}, "address": "10.0.0.1", "open_for": opened}
    seen: list[Order] = []

    def handle(messages: Messages, tx: Any) -> None:
        Order.objects.create(number=1, **fields)
        seen.extend(Order.objects.filter(details__a=[1]).iterator(chunk_size=1))

    process(mp, handle)
    expected = Order.objects.get()
    for name in fields:
        assert getattr(seen[0], name) == getattr(expected, name) == fields[name]
    assert seen[0].placed_at.tzinfo is expected.placed_at.tzinfo


def test_the_sessions_time_zone_is_djangos(mp: Milepost) -> None:
    place(1)
    seen: list[str] = []

    def handle(messages: Messages, tx: Any) -> None:
        tx.connection.execute("set time zone 'Asia/Tokyo'")  # gone with the batch

    def look(messages: Messages, tx: Any) -> None:
        seen.append(tx.connection.info.parameter_status("TimeZone"))

    mp.processor("first")(handle)
    mp.processor("second")(look)
    mp.run(until="caught_up", fail_fast=True)
    place(2)
    mp.run(until="caught_up", fail_fast=True)
    assert seen == ["UTC"] * 2


def test_our_own_statements_see_none_of_djangos_converters(mp: Milepost) -> None:
    place(1)
    seen: list[Any] = []

    def handle(messages: Messages, tx: Any) -> None:
        bill(messages)
        conn = tx.connection
        seen.append(conn.cursor_factory)
        seen.extend(conn.execute("""select '{"a": 1}'::jsonb, '10.0.0.1'::inet""").fetchone())

    process(mp, handle)
    assert seen[0] is psycopg.Cursor
    assert seen[1] == {"a": 1}
    assert str(seen[2]) == "10.0.0.1"
    assert type(seen[2]) is not str


def test_receivers_of_connection_created_are_told_of_the_connection(mp: Milepost) -> None:
    place(1)
    seen: list[Any] = []

    def receive(sender: Any, connection: Any, **rest: Any) -> None:
        seen.append(connection)

    connection_created.connect(receive)
    try:
        process(mp, noting(seen))
    finally:
        connection_created.disconnect(receive)
    assert seen[0] is seen[1]


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


@pytest.mark.parametrize("handle", ["job", "batch"])
def test_a_workers_effects_commit_with_the_end_of_the_job(mp: Milepost, handle: Any) -> None:
    with transaction.atomic():
        ids = put(Job("orders", {"number": 1}, max_attempts=1), Job("orders", {"number": 2}))
    seen: list[Any] = []

    def work(given: Any, tx: Any) -> None:
        for job in given if isinstance(given, list) else [given]:
            Order.objects.create(number=job.content["number"])
            transaction.on_commit(lambda: seen.append(sorted(totals())))

    mp.worker("orders", handle=handle, concurrency=1)(work)
    mp.run(until="drained", fail_fast=True)
    assert sorted(totals()) == [1, 2]
    assert seen[-1] == [1, 2]
    assert len(ids) == len(seen) == 2


def test_a_workers_effects_are_undone_if_it_fails(mp: Milepost) -> None:
    with transaction.atomic():
        put(Job("orders", max_attempts=1))

    def work(job: Any, tx: Any) -> None:
        Order.objects.create(number=1)
        raise RuntimeError("too late")

    mp.worker("orders")(work)
    mp.run(until="drained")
    assert totals() == {}


def test_a_worker_without_tx_has_a_connection_of_its_own_that_does_not_stay_open(
    mp: Milepost,
) -> None:
    with transaction.atomic():
        put(*(Job("orders", number) for number in range(20)))
    seen: list[bool] = []

    def work(job: Any) -> None:
        Order.objects.create(number=job.content)
        seen.append(connection.in_atomic_block)

    mp.worker("orders", concurrency=4)(work)
    mp.run(until="drained", fail_fast=True)
    assert (len(totals()), set(seen)) == (20, {False})
    with mp.connect() as conn:
        row = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name <> 'milepost' and pid <> %s and backend_type = 'client backend'",
            [connection.connection.info.backend_pid],
        ).fetchone()
    assert row == (0,)


def test_a_task_with_tx_uses_the_orm_in_its_transaction(mp: Milepost) -> None:
    seen: list[bool] = []

    @mp.task
    def bill_one(tx: Any, number: int) -> None:
        Order.objects.create(number=number)
        seen.append(connection.in_atomic_block)

    with transaction.atomic():
        put(bill_one.job(number=3))
    mp.run(until="drained", fail_fast=True)
    assert (sorted(totals()), seen) == ([3], [True])


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


def test_every_converter_of_django_is_on_its_cursors_in_a_handler(mp: Milepost) -> None:
    """A newer Django may have more of them."""
    place(1)
    found: list[bool] = []

    def maps(adapters: Any) -> list[dict[Any, Any]]:
        return [*adapters._loaders, *adapters._dumpers.values()]

    def handle(messages: Messages, tx: Any) -> None:
        template = get_adapters_template(True, tx.timezone)
        with tx.cursor() as cursor:
            own = maps(cursor.cursor.adapters)
        for ours, djangos, plain in zip(own, maps(template), maps(psycopg.adapters), strict=True):
            # psycopg enters the one of UUID when it is first used.
            wanted = {k: v for k, v in djangos.items() if plain.get(k) is not v and k is not UUID}
            found.extend(ours.get(kind) is converter for kind, converter in wanted.items())

    process(mp, handle)
    assert found == [True] * 6
