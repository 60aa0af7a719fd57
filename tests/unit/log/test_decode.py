from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from milepost import Position
from milepost.log.decode import recorded_message, time_text
from milepost.records import RecordedMessage

DAY = 86_400_000_000
ID = UUID("01890000-0000-7000-8000-000000000001")
AT = datetime(2026, 11, 17, tzinfo=UTC)


def made(data: Any = "d", position: int = 8) -> RecordedMessage:
    return recorded_message("T", data, "k", "topic", {"m": 1}, ID, 7, position, AT)


def constructed() -> RecordedMessage:
    return RecordedMessage(
        "T",
        "d",
        key="k",
        topic="topic",
        metadata={"m": 1},
        id=ID,
        position=Position(7, 8),
        recorded_at=AT,
    )


def test_a_message_from_a_row_is_what_the_constructor_makes() -> None:
    assert type(made()) is RecordedMessage
    assert type(made().position) is Position
    assert made() == constructed()
    assert made() != made(position=9)
    assert repr(made()) == repr(constructed())
    assert hash(made().position) == hash(Position(7, 8))
    assert made().position < made(position=9).position
    assert not made().replaying


def test_a_message_from_a_row_can_be_copied_and_pickled() -> None:
    message = made()
    unpickled = pickle.loads(pickle.dumps(message))  # noqa: S301 - pickled just now
    for other in (copy.copy(message), copy.deepcopy(message), unpickled):
        assert other == message
        assert type(other) is RecordedMessage
    assert replace(message, replaying=True).replaying
    assert pickle.dumps(message) == pickle.dumps(constructed())


@pytest.mark.parametrize("change", [setattr, lambda each, name, _: delattr(each, name)])
def test_a_message_from_a_row_cannot_be_changed(change: Any) -> None:
    message = made()
    for each, name in ((message, "type"), (message, "replaying"), (message.position, "position")):
        with pytest.raises(FrozenInstanceError):
            change(each, name, 1)
    assert not hasattr(message, "__dict__")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (2**63 - 1, "infinity"),
        (-(2**63), "-infinity"),
        (0, "2000-01-01T00:00:00.000000+00:00"),
        (-1, "1999-12-31T23:59:59.999999+00:00"),
        (-730_119 * DAY, "0001-01-01T00:00:00.000000+00:00"),
        (-730_120 * DAY, "0001-12-31T00:00:00.000000+00:00 BC"),
        (2_921_940 * DAY, "10000-01-01T00:00:00.000000+00:00"),
    ],
)
def test_a_time_that_python_lacks_is_written_as_postgresql_writes_it(
    microseconds: int, text: str
) -> None:
    assert time_text(microseconds) == text
