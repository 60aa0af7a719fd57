"""What is counted and measured, by the conventions for messaging."""

from __future__ import annotations

from uuid import uuid4

import pytest

from milepost import Job, Message, Milepost
from milepost.db import Connection
from milepost.errors import InvalidMessage
from milepost.telemetry.recorder import MOST_DESTINATIONS
from tests.integration.telemetry.conftest import Recorded
from tests.integration.telemetry.test_traces import nothing

SENT, CONSUMED = "messaging.client.sent.messages", "messaging.client.consumed.messages"
OPERATION, PROCESS = "messaging.client.operation.duration", "messaging.process.duration"


def _new(kind: str) -> str:
    """Instruments live as long as the process: each test measures under its own name."""
    return f"{kind}-{uuid4().hex}"


def test_messages_are_counted_once_a_batch(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    topic, name = _new("topic"), _new("processor")
    processor = mp.processor(name, topics=[topic], batch_size=10)(nothing)
    mp.append(conn, *(Message("Ordered", n, topic=topic) for n in range(30)))
    processor.run(until="caught_up")
    (sent,) = recorded.measured(SENT, destination__name=topic, system="milepost")
    assert sent.value == 30
    (appended,) = recorded.measured(OPERATION, destination__name=topic, operation__name="append")
    assert appended.count == 1
    assert 0 < appended.sum < 60
    (consumed,) = recorded.measured(CONSUMED, consumer__group__name=name, destination__name=topic)
    assert consumed.value == 30
    (read,) = recorded.measured(OPERATION, consumer__group__name=name, operation__type="receive")
    (handled,) = recorded.measured(PROCESS, consumer__group__name=name, operation__type="process")
    assert read.count == handled.count == 3


def test_jobs_are_counted_by_their_channel(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    prefix = _new("channel")
    worker = mp.worker(f"{prefix}.*")(nothing)
    mp.put(conn, Job(f"{prefix}.a"), Job(f"{prefix}.a"), Job(f"{prefix}.b"))
    worker.run(until="drained")
    counts = {name: recorded.measured(SENT, destination__name=f"{prefix}.{name}") for name in "ab"}
    assert {name: points[0].value for name, points in counts.items()} == {"a": 2, "b": 1}
    (consumed,) = recorded.measured(CONSUMED, destination__template=f"{prefix}.*")
    (handled,) = recorded.measured(PROCESS, destination__template=f"{prefix}.*")
    assert consumed.value == handled.count == 3


def test_a_put_into_many_channels_is_counted_as_one(
    mp: Milepost, conn: Connection, recorded: Recorded
) -> None:
    prefix = _new("channel")
    mp.put(conn, *(Job(f"{prefix}.{n}") for n in range(MOST_DESTINATIONS + 1)))
    assert recorded.measured(SENT, destination__name=f"{prefix}.0") == []


def test_a_failure_names_its_error(mp: Milepost, conn: Connection, recorded: Recorded) -> None:
    channel = _new("channel")

    @mp.worker(channel)
    def fail(job: object) -> None:
        raise LookupError

    with pytest.raises(InvalidMessage):
        mp.append(conn, Message("", {}))
    mp.put(conn, Job(channel, max_attempts=1))
    fail.run(until="drained")
    (failed,) = recorded.measured(PROCESS, destination__name=channel)
    assert failed.attributes["error.type"] == "LookupError"
    appended = recorded.measured(OPERATION, operation__name="append")
    assert "InvalidMessage" in {point.attributes.get("error.type") for point in appended}
