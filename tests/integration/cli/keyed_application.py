"""An application for `milepost run tests.integration.cli.keyed_application:mp`: a processor that
parks what it dislikes, and one that empties its table at a reset."""

from __future__ import annotations

import os

from milepost import Milepost, Position, RecordedMessage, Retry
from milepost.db import Connection

mp = Milepost()


@mp.processor("parking", retry=Retry(limit=0), on_failure="park")
def parking(messages: list[RecordedMessage], tx: Connection) -> None:
    if os.environ.get("MOOD") != "good" and any(m.key == "bad" for m in messages):
        raise ValueError("a bad key")


@mp.processor("filling")
def filling(messages: list[RecordedMessage], tx: Connection) -> None:
    for message in messages:
        tx.execute(
            "insert into filled (n, replaying) values (%s, %s)",
            [message.data["n"], message.replaying],
        )


@filling.on_reset
def empty(tx: Connection, to: Position) -> None:
    tx.execute("delete from filled")
