"""A program with one processor, as a user would write it, for tests that kill or signal it.

Run as `python -m tests.integration.processors.application URL WAY STOP_SECONDS`. Its handler
says on stdout that it has a batch in hand, leaves the effects, and then, the WAY it was told,
waits: until the table `released` has a row, or for ever. It also says when it was told to stop.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy.orm import Session

from milepost import Milepost, RecordedMessage
from milepost.db import AsyncConnection, Connection
from tests.integration.processors.running import leave_all
from tests.orm import SessionLocal, note

NAME = "application"
BATCH_SIZE = 3
ROOT = Path(__file__).parents[3]


class Application:
    """The ways to wait in the middle of a batch."""

    def __init__(self, url: str) -> None:
        self.url = url

    def released(self, messages: list[RecordedMessage], tx: Connection) -> None:
        say("handling")
        leave_all(messages, tx)
        with psycopg.connect(self.url, autocommit=True) as conn:
            while conn.execute("select from released").fetchone() is None:
                time.sleep(0.01)

    def endless(self, messages: list[RecordedMessage], tx: Connection) -> None:
        say("handling")
        leave_all(messages, tx)
        threading.Event().wait()

    def endless_statement(self, messages: list[RecordedMessage], tx: Connection) -> None:
        say("handling")
        leave_all(messages, tx)
        tx.execute("select pg_sleep(3600)")

    def endless_session(self, messages: list[RecordedMessage], session: Session) -> None:
        """It has flushed and has not committed."""
        for message in messages:
            note(session, message)
        session.flush()
        say("handling")
        threading.Event().wait()

    async def endless_async(self, messages: list[RecordedMessage], tx: AsyncConnection) -> None:
        say("handling")
        await tx.execute(
            "insert into effects (transaction_id, position) values (0, %s)", [len(messages)]
        )
        await asyncio.Event().wait()


class Stopping(logging.Handler):
    """Says that the signal was taken: from here on no batch may begin."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().endswith("stopping"):
            say("stopping")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


@contextmanager
def started(url: str, way: str, stop_seconds: float = 30.0) -> Iterator[subprocess.Popen[str]]:
    """The program in a process of its own, which is killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, url, way, str(stop_seconds)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_until_handling(process: subprocess.Popen[str]) -> None:
    _wait_until_it_says(process, "handling")


def wait_until_stopping(process: subprocess.Popen[str]) -> None:
    _wait_until_it_says(process, "stopping")


def _wait_until_it_says(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == f"{word}\n", f"said {line!r} and ended with {process.wait()}"


def main(url: str, way: str, stop_seconds: str) -> None:
    log = logging.getLogger("milepost")
    log.setLevel(logging.INFO)
    log.addHandler(Stopping())
    mp = Milepost(url)
    session = SessionLocal if way.endswith("session") else None
    mp.processor(NAME, batch_size=BATCH_SIZE, session=session)(getattr(Application(url), way))
    mp.run(stop_seconds=float(stop_seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
