"""The watcher of a process listens if one of its members does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.log import Horizon, horizon
from milepost.runtime import Runtime, watcher
from tests.waiting import wait_until

POLL_SECONDS = 60.0


@pytest.fixture
def runtime(url: str) -> Runtime:
    return Runtime(url, "milepost")


@pytest.fixture
def heard(runtime: Runtime) -> list[set[str]]:
    """The channels that the watcher listens to, again and again: its connection is its own."""
    found: list[set[str]] = []

    def note(conn: Connection) -> None:
        rows = conn.execute("select pg_listening_channels()").fetchall()
        found.append({name for (name,) in rows})

    runtime.add_chore(0.05, note)
    return found


def test_it_does_not_listen_for_a_member_that_only_wants_chores(
    runtime: Runtime, heard: list[set[str]]
) -> None:
    with runtime.watching(POLL_SECONDS, listens=False):
        wait_until(lambda: len(heard) > 1)
    assert not set().union(*heard)


def test_it_begins_to_listen_for_another_which_misses_nothing(
    runtime: Runtime, heard: list[set[str]], mp: Milepost
) -> None:
    has_jobs = Event()
    with runtime.watching(POLL_SECONDS, listens=False) as first:
        with mp.connect() as conn:
            mp.append(conn, Message("Before", {}))
        with runtime.watching(POLL_SECONDS, has_jobs.set) as second:
            assert has_jobs.wait(60.0)  # there may be some that were put before it listened
            wait_until(lambda: len(heard[-1]) == 2)
            wait_until(lambda: second.horizon.position.position == 1)
        assert first.watcher is second.watcher


def test_what_anybody_may_notify_ends_nobody_and_is_looked_at_every_few_milliseconds(
    runtime: Runtime, mp: Milepost, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def counted(conn: Connection, schema: str) -> Horizon:
        looks.append(time.monotonic())
        return horizon(conn, schema)

    monkeypatch.setattr(watcher, "horizon", counted)
    cancelled: list[Sequence[int]] = []
    with runtime.watching(POLL_SECONDS, lambda: None, cancelled.append) as watch:
        for payload in ("cancel x", f"cancel {'9' * 5000}", "cancel 1 2", "", "cancel"):
            conn.execute("select pg_notify('milepost_queue', %s)", [payload])
        wait_until(lambda: cancelled)
        before, began = len(looks), time.monotonic()
        for number in range(1000):
            conn.execute("select pg_notify('milepost', %s)", [str(number)])
        seconds, looked = time.monotonic() - began, len(looks) - before
        mp.append(conn, Message("T", {}))
        wait_until(lambda: watch.horizon.position.position == 1)
    assert cancelled == [[1, 2]]
    # One look that finds something may follow each of the others sooner.
    assert looked <= seconds / watcher.LOOK_IN_VAIN_SECONDS + 2
