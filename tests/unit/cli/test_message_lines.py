from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from milepost import Message, Position, RecordedMessage
from milepost.cli.message_lines import line_from, message_from
from milepost.errors import InvalidMessage

NONE: dict[str, str] = {}
ID = UUID("00000000-0000-4000-8000-000000000001")


def test_what_is_written_is_what_is_read() -> None:
    recorded = RecordedMessage(
        "T",
        {"a": [1, None, "ü\n"]},
        key=None,
        topic="t",
        metadata={"m": 1},
        id=ID,
        position=Position(7, 42),
        recorded_at=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    )
    line = line_from(recorded)
    assert line.endswith(b"}\n")
    assert json.loads(line)["position"] == "7:42"
    assert datetime.fromisoformat(json.loads(line)["recorded_at"]) == recorded.recorded_at
    assert b"2025-12-31T22:00:00+00:00" in line
    assert datetime.fromisoformat(json.loads(line)["recorded_at"]).tzinfo == UTC
    # The key of a line that says null is none, whatever the default.
    message = message_from(line, {"type": "X", "topic": "x", "key": "x"})
    assert message == Message("T", recorded.data, key=None, topic="t", metadata={"m": 1}, id=ID)


def test_defaults_are_for_what_is_absent() -> None:
    message = message_from(b'{"data": 1}', {"type": "T", "topic": "t", "key": "k"})
    assert (message.type, message.topic, message.key) == ("T", "t", "k")
    assert message_from(b'{"type": "T", "data": 1}', NONE).topic == "default"


def test_null_stands_for_a_field_left_out() -> None:
    line = b'{"type": "T", "data": null, "topic": null, "metadata": null, "id": null}'
    message = message_from(line, NONE)
    assert (message.data, message.topic, message.metadata) == (None, "default", {})
    assert message.id.version == 7


def test_integers_of_more_than_64_bits_are_not_rounded() -> None:
    assert message_from(b'{"type": "T", "data": 123456789012345678901}', NONE).data == (
        123456789012345678901
    )


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"type": "T", "data": 1', "is not JSON: Expecting ',' delimiter at 24"),
        (b"\xff", "is not JSON"),
        (b'{"data": ' + b"[" * 100_000, "is not JSON"),
        (b'{"type": "T"}', "data is missing"),
        (b'{"data": 1}', "type is missing"),
        (b'{"type": null, "data": 1}', "type is missing"),
        (b'{"typ": "T", "data": 1}', "unknown field 'typ'"),
        (b'{"type": "T", "data": 1, "id": "x"}', "id is 'x', which is not a UUID"),
        (b'{"type": "T", "data": 1, "id": 7}', "id is 7, which is not a UUID"),
        (b'{"type": "T", "data": 1, "data": 2}', "has 'data' twice"),
        (b'{"type": "T", "data": [{"a": 1, "a": 1}]}', "has 'a' twice"),
    ],
)
def test_a_bad_line_is_refused_with_a_reason(line: bytes, complaint: str) -> None:
    with pytest.raises(InvalidMessage) as refusal:
        message_from(line, NONE)
    assert complaint in str(refusal.value)
