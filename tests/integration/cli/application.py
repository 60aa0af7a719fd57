"""An application for `milepost run tests.integration.cli.application:mp`."""

from __future__ import annotations

import sys
import time

from milepost import Milepost, RecordedMessage, Retry, TakenJob
from milepost.db import Connection

mp = Milepost()
empty = Milepost()
nothing = "a text"
QUICK = Retry(limit=1, first_seconds=0.001)


@mp.processor("picky", topics=["orders"], retry=QUICK)
def picky(messages: list[RecordedMessage], tx: Connection) -> None:
    """Stops at the first message it does not like."""
    refuse_bad(messages)


@mp.processor("lenient", topics=["orders"], retry=QUICK, on_failure="skip")
def lenient(messages: list[RecordedMessage], tx: Connection) -> None:
    """Sets aside what it does not like."""
    refuse_bad(messages)


def refuse_bad(messages: list[RecordedMessage]) -> None:
    if any(message.data.get("is_bad") for message in messages):
        raise ValueError("a bad order")


@mp.worker("chores", retry={ValueError: None})
def chores(job: TakenJob) -> None:
    """Gives up what it does not like at once."""
    if job.content == "slow":
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        time.sleep(1)
    if job.content == "endless":
        time.sleep(3600)
    if job.content == "bad":
        raise ValueError("a bad chore")
