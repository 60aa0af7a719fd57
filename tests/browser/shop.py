"""What one process of the shop in the screenshots runs."""

from __future__ import annotations

from threading import Event
from typing import Any

from milepost import Milepost, RecordedMessage, Retry
from milepost.db import Connection

PACE_SECONDS = 0.05
mp = Milepost()
_never = Event()  # to wait for a time: this is the work that the shop does


@mp.processor("billing", topics=["orders"], batch_size=50)
def billing(messages: list[RecordedMessage], tx: Connection) -> None:
    _never.wait(PACE_SECONDS)


@mp.processor("shipping", topics=["orders"], segments=8, batch_size=20)
def shipping(messages: list[RecordedMessage], tx: Connection) -> None:
    _never.wait(PACE_SECONDS * 4)


@mp.processor("search-index", retry=Retry(limit=0), on_failure="park", batch_size=1)
def search(messages: list[RecordedMessage], tx: Connection) -> None:
    if any(message.type == "OrderImported" for message in messages):
        raise KeyError("customer: the import has no such field")


@mp.processor("fraud-check", topics=["payments"], retry=Retry(limit=100, first_seconds=5))
def fraud(messages: list[RecordedMessage], tx: Connection) -> None:
    raise ConnectionError("scoring.internal:443 refused the connection")


@mp.worker("mails", concurrency=4)
def mail(job: Any) -> None:
    _never.wait(PACE_SECONDS * 2)


@mp.worker("invoices", concurrency=2)
def invoice(job: Any) -> None:
    _never.wait(PACE_SECONDS * 6)
