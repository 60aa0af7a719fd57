"""Without opentelemetry-api nothing of it is used, and everything else works."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
sys.modules["opentelemetry"] = None  # an import of it fails
import milepost, milepost.cli, milepost.telemetry
from milepost.processors.definition import Definition, ProcessorOptions
from milepost.processors.handler_call import Supply
from milepost.queue.definition import Definition as Work, WorkerOptions

assert milepost.telemetry.otel is None
assert "milepost.telemetry.recorder" not in sys.modules
def handle(given, tx=None):
    return given
assert Work(WorkerOptions("receipts"), handle)._surrounded(handle) is handle
(handling,) = Definition.of(ProcessorOptions("orders"), handle).handlers
assert handling([1], Supply()) == [1]
"""


def test_milepost_works_without_opentelemetry() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, timeout=60)


_WORK = """
import sys
sys.modules["opentelemetry"] = None
from milepost import Job, Message, Milepost

mp = Milepost(sys.argv[1])

@mp.processor("orders", handle="message")
def order(message, tx):
    mp.put(tx, Job("receipts", message.data))

done = []

@mp.worker("receipts")
def send(job):
    done.append((job.content, job.trace))

with mp.connect() as conn:
    mp.append(conn, Message("Ordered", 1, metadata={"by": "me"}))
order.run(until="caught_up")
send.run(until="drained")
assert done == [(1, None)], done
with mp.connect() as conn:
    assert conn.execute("select metadata from milepost.messages").fetchone() == ({"by": "me"},)
"""


def test_messages_and_jobs_are_handled_without_opentelemetry(url: str) -> None:
    subprocess.run([sys.executable, "-c", _WORK, url], check=True, timeout=120)
