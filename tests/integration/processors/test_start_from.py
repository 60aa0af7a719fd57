"""Where a processor begins: its checkpoint if it has one, else what it was told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from milepost import Message, Milepost, Position
from milepost.db import Connection
from milepost.log import Start
from milepost.processors import Processor
from tests.integration.processors.conftest import Put
from tests.integration.processors.running import Effects, leave_all

pytestmark = pytest.mark.parametrize("order", ["append", "transaction"])


def starting(url: str, start: Start, version: int = 1) -> Processor:
    """As a new process would define it."""
    return Milepost(url).processor("starting", start_from=start, version=version)(leave_all)


def test_from_the_beginning(url: str, effects: Effects, put: Put) -> None:
    positions = put(3)
    starting(url, "beginning").run(until="caught_up")
    assert effects.positions() == positions


def test_from_the_end_as_of_the_first_start(url: str, effects: Effects, put: Put) -> None:
    put(3)
    starting(url, "end").run(until="caught_up")
    assert effects.count() == 0
    later = put(2)
    starting(url, "end").run(until="caught_up")
    assert effects.positions() == later


def test_from_the_end_does_not_skip_what_is_in_flight(
    url: str, mp: Milepost, conn: Connection, effects: Effects, put: Put
) -> None:
    put(1)
    with Milepost(url).connect() as other, other.transaction():
        in_flight = mp.append(other, Message("Counted", {"number": 1}))
        put(1)  # committed, and above what is in flight
        starting(url, "end").run(until="caught_up")
    starting(url, "end").run(until="caught_up")
    assert in_flight[0] in effects.positions()


def test_from_a_position(url: str, effects: Effects, put: Put) -> None:
    positions = put(5)
    starting(url, positions[1]).run(until="caught_up")
    assert effects.positions() == positions[2:]


def test_from_a_time(url: str, conn: Connection, effects: Effects, put: Put) -> None:
    put(2)
    conn.execute("update milepost.messages set recorded_at = recorded_at - interval '1 day'")
    later = put(2)
    starting(url, datetime.now(UTC) - timedelta(hours=1)).run(until="caught_up")
    assert effects.positions() == later


@pytest.mark.parametrize("start", ["beginning", "end", Position.BEGINNING])
def test_a_checkpoint_comes_before_what_it_was_told(
    url: str, effects: Effects, put: Put, start: Start
) -> None:
    positions = put(2)
    starting(url, "beginning").run(until="caught_up")
    positions += put(2)
    starting(url, start).run(until="caught_up")
    assert effects.positions() == positions


def test_a_new_version_starts_anew_and_leaves_the_old_one_where_it_is(
    url: str, effects: Effects, put: Put
) -> None:
    positions = put(3)
    first, second = starting(url, "beginning"), starting(url, "beginning", version=2)
    first.run(until="caught_up")
    stood = first.position()
    second.run(until="caught_up")
    assert effects.positions() == positions * 2
    assert first.position() == stood
