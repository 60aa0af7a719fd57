"""The watcher of a process listens if one of its members does."""

from __future__ import annotations

from threading import Event

import pytest

from milepost import Message, Milepost
from milepost.db import Connection
from milepost.runtime import Runtime
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
