"""The pages of the log and the overview, against a real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from milepost import Message, Milepost, Retry
from milepost.db import Connection
from milepost.errors import HandlerFailed
from milepost.ui import dashboard
from tests.archiving import Archive
from tests.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
NO_FLOAT = 12345678901234567891  # a float would round it


@pytest.fixture
def client(mp: Milepost) -> Iterator[TestClient]:
    made = dashboard(mp)
    yield TestClient(made, "http://localhost", client=("127.0.0.1", 5000))
    made.close()


def appended(mp: Milepost, conn: Connection, *messages: Message) -> list[str]:
    with conn.transaction():
        return [str(position) for position in mp.append(conn, *messages)]


def test_the_tail_is_filtered(mp: Milepost, conn: Connection, client: TestClient) -> None:
    appended(
        mp,
        conn,
        Message("Placed", {}, topic="orders", key="anna"),
        Message("Paid", {}, topic="payments", key="ben"),
    )
    everything = client.get("/log").text
    assert all(word in everything for word in ("Placed", "Paid", "2 messages"))
    for query, present, absent in (
        ("topic=orders", "anna", "ben"),
        ("type=Paid", "ben", "anna"),
        ("key=ben", "payments", "orders"),
    ):
        found = client.get(f"/log?{query}").text
        assert present in found
        assert f">{absent}<" not in found
    assert "No messages with this filter" in client.get("/log?topic=none").text


def test_a_payload_is_hidden_until_it_is_asked_for_and_exact(
    mp: Milepost, conn: Connection, client: TestClient
) -> None:
    metadata = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    (place,) = appended(mp, conn, Message("Placed", {"total": NO_FLOAT}, metadata=metadata))
    hidden = client.get(f"/log/{place}").text
    assert str(NO_FLOAT) not in hidden
    assert TRACE in hidden
    assert "Show the payload" in hidden
    assert str(NO_FLOAT) in client.get(f"/log/{place}?payload=1").text


def test_what_others_wrote_is_escaped(mp: Milepost, conn: Connection, client: TestClient) -> None:
    bad = "<script>alert(1)</script>"
    (place,) = appended(mp, conn, Message(bad, {"a": bad}, topic=bad, key=bad, metadata={"b": bad}))
    for path in ("/log", f"/log/{place}?payload=1", f"/log?topic={bad}"):
        assert "<script>alert" not in client.get(path).text


def test_a_message_shows_who_has_passed_it(
    mp: Milepost, conn: Connection, client: TestClient
) -> None:
    @mp.processor("orders", topics=["orders"])
    def handle(messages: Any, tx: Any) -> None: ...

    @mp.processor("others", topics=["others"], segments=2)
    def handle_others(messages: Any, tx: Any) -> None: ...

    (first,) = appended(mp, conn, Message("Placed", {}, topic="orders", key="anna"))
    mp.run(until="caught_up")
    (second,) = appended(mp, conn, Message("Placed", {}, topic="orders", key="anna"))
    passed = client.get(f"/log/{first}").text
    assert passed.count("passed</span>") == 1
    assert passed.count("its filter skips it") == 1  # one segment of two: that of the key
    assert client.get(f"/log/{second}").text.count("not yet</span>") == 1


def test_an_open_transaction_is_drawn_with_the_command_that_ends_it(
    mp: Milepost, conn: Connection, client: TestClient
) -> None:
    with mp.connect() as open_, open_.transaction():
        mp.append(open_, Message("Held", {}))
        appended(mp, conn, Message("Waits", {}))
        shown = client.get("/log").text
        pid = open_.info.backend_pid
    assert f"pg_terminate_backend({pid})" in shown
    assert "above the horizon" in shown
    assert f"<title>pid {pid}, open for" in shown


def test_a_message_is_found_in_the_archive(
    mp: Milepost, conn: Connection, client: TestClient, archive: Archive
) -> None:
    places = appended(mp, conn, *(Message("Old", {"n": n}) for n in range(3)))
    archive.move()
    shown = client.get(f"/log/{places[0]}?payload=1").text
    assert "in the archive" in shown
    assert "&#34;n&#34;: 0" in shown
    assert "archived up to" in client.get("/log").text


def test_the_overview_has_a_row_for_each_with_lag(
    mp: Milepost, conn: Connection, client: TestClient
) -> None:
    @mp.processor("billing")
    def handle(messages: Any, tx: Any) -> None: ...

    mp.run(until="caught_up")
    appended(mp, conn, *(Message("Placed", {}) for _ in range(3)))
    shown = client.get("/").text
    assert '<a href="/processors/billing">billing</a>' in shown
    assert '<td class="num">3</td>' in shown


def test_the_overview_shows_what_the_doctor_finds(mp: Milepost, client: TestClient) -> None:
    assert "are running" in client.get("/").text
    wait_until(lambda: "Everything is healthy" in client.get("/").text, look_seconds=0.1)


def test_the_overview_shows_the_command_that_fixes_a_problem(
    mp: Milepost, conn: Connection, client: TestClient
) -> None:
    @mp.processor("billing", retry=Retry(limit=1))
    def handle(messages: Any, tx: Any) -> None:
        raise RuntimeError("no money")

    appended(mp, conn, Message("Placed", {}))
    with pytest.raises(HandlerFailed):
        mp.run(until="caught_up", fail_fast=True)
    assert "no money" in client.get("/").text
    wait_until(lambda: "milepost processors skip billing" in client.get("/").text, look_seconds=0.1)
