"""An application for `milepost run tests.integration.observe.application:mp --health ...`."""

from __future__ import annotations

from threading import Event

from milepost import Milepost, RecordedMessage, Retry, TakenJob
from milepost.db import Connection
from tests.integration.observe.gate import GATE, SECRET

mp = Milepost()


@mp.processor("slow", topics=["slow"])
def slow(messages: list[RecordedMessage], tx: Connection) -> None:
    tx.execute(f"select pg_advisory_xact_lock_shared({GATE})".encode())


@mp.processor("turns", topics=["turns"], delivery="at_least_once")
def turns(messages: list[RecordedMessage]) -> None:
    """One instance has the turn, and the others stand by."""
    with mp.connect() as conn:
        conn.execute(f"select pg_advisory_lock_shared({GATE})".encode())


@mp.processor("picky", topics=["bad"], retry=Retry(limit=1, first_seconds=0.001))
def picky(messages: list[RecordedMessage], tx: Connection) -> None:
    raise ValueError(SECRET)


@mp.worker("chores")
def chores(job: TakenJob) -> None:
    """Has no end, as a call of somebody who does not answer."""
    Event().wait()
