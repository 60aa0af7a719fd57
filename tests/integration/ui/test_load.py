"""However many browsers are open, the database is asked at most five times a second."""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from threading import Thread
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import psycopg
import pytest

from milepost import Milepost, sql
from milepost.db import Connection
from milepost.ui import dashboard
from milepost.ui.observed.checkup import Checkup
from milepost.ui.observed.pace import QUERIES_A_SECOND
from tests import operated
from tests.integration.ui.operating import Operator
from tests.serving import served
from tests.waiting import wait_until

VIEWS = ("/", "/log", "/processors/cut", "/pipelines/revenue", "/queue", "/dead-letters", "/jobs")
WATCHED_SECONDS = 4.0


@pytest.fixture(autouse=True)
def _hurried() -> None:
    """Not here: the pace is what is tested."""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each query of this process began; not what only sets something."""
    times: list[float] = []
    execute = psycopg.Cursor.execute
    settings = [sql.query(name) for name in ("time_limits", "session_read_committed")]

    def noting(self: psycopg.Cursor[Any], query: Any, *args: Any, **options: Any) -> Any:
        if query not in settings:
            times.append(time.monotonic())
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", noting)
    return times


def follow(root: str, view: str) -> None:
    with urlopen(f"{root}/events?view={quote(view, safe='')}") as stream:  # noqa: S310 - ours
        while stream.read1():
            pass


def most_within(times: list[float], seconds: float) -> int:
    return max(sum(t <= other < t + seconds for other in times) for t in times)


def is_as_often_as_allowed(turns: list[float]) -> bool:
    return most_within(turns, 1.5) >= QUERIES_A_SECOND


class Noted(deque[float]):
    """When each query of a pace was allowed. When it began then depends on the machine."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[float] = []

    def append(self, at: float) -> None:
        self.all.append(at)
        super().append(at)


def test_many_browsers_ask_five_queries_a_second(
    mp: Milepost, conn: Connection, begun: list[float]
) -> None:
    operated.busy(mp, conn)
    made = dashboard(mp)
    made.board.pace._begun = turns = Noted()
    with served(made) as root:
        begun.clear()
        threads = [Thread(target=follow, args=(root, view)) for view in VIEWS for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(made.broadcast._channels) == len(VIEWS))
        until = time.monotonic() + WATCHED_SECONDS
        wait_until(lambda: time.monotonic() > until)
        wait_until(lambda: is_as_often_as_allowed([*turns.all]))
        asked, allowed = len(begun), [*turns.all]
    for thread in threads:
        thread.join(30)
    assert is_as_often_as_allowed(allowed)
    assert most_within(allowed, 1.0) <= QUERIES_A_SECOND
    assert asked <= len(allowed)


def test_what_is_looked_at_by_the_overview_is_two_queries(
    mp: Milepost, begun: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(dashboard(mp)) as made:
        monkeypatch.setattr(Checkup, "latest", lambda _: None)  # the doctor has its own queries
        function, view = made._view("/")
        function(view)
        begun.clear()
        made.board.forget()
        function(view)
    assert len(begun) == 2


def test_prometheus_reads_the_same_look(mp: Milepost, conn: Connection, begun: list[float]) -> None:
    operated.busy(mp, conn)
    with served(dashboard(mp)) as root:
        texts = [read(f"{root}/metrics") for _ in range(2)]
    assert all("\nmilepost_dead_letters{" in text for text in texts)


def read(url: str) -> str:
    with urlopen(url) as answer:  # noqa: S310 - our own address
        return str(answer.read().decode())


def test_metrics_need_the_login(mp: Milepost, conn: Connection) -> None:
    token = "0123456789abcdef"  # noqa: S105
    with closing(dashboard(mp, token=token)) as made:
        client = Operator(made, conn).client
        assert client.get("/metrics").status_code == 401
        answer = client.get("/metrics", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert "milepost_up 1.0" in answer.text
