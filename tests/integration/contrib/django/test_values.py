"""The session and the converters of a handler's connection are Django's, and nobody else's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from django.db.backends.postgresql.psycopg_any import get_adapters_template
from django.db.backends.signals import connection_created
from psycopg.types.range import Range

from milepost import Milepost
from tests.integration.contrib.django.billing import Messages, bill, noting, place, process
from tests.integration.contrib.django.shop.models import Order


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


def test_every_converter_of_django_is_on_its_cursors_in_a_handler(mp: Milepost) -> None:
    """A newer Django may have more of them."""
    place(1)
    found: list[bool] = []

    def maps(adapters: Any) -> list[dict[Any, Any]]:
        return [*adapters._loaders, *adapters._dumpers.values()]

    def is_djangos(kind: Any, converter: Any) -> bool:
        """psycopg enters some of its own by class when they are first used."""
        return isinstance(kind, int) or converter.__module__.startswith("django.")

    def handle(messages: Messages, tx: Any) -> None:
        template = get_adapters_template(True, tx.timezone)
        with tx.cursor() as cursor:
            own = maps(cursor.cursor.adapters)
        for ours, djangos, plain in zip(own, maps(template), maps(psycopg.adapters), strict=True):
            wanted = {k: v for k, v in djangos.items() if plain.get(k) is not v}
            found.extend(ours.get(k) is v for k, v in wanted.items() if is_djangos(k, v))

    process(mp, handle)
    assert found == [True] * 6
