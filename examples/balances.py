"""Balances in memory, saved to a SQLite file every few seconds: a handler that checkpoints itself.

Handling touches memory alone. What was handled is durable when it is in the file, so the checkpoint
moves then, and no further. Kill it at any time: it loads the file and is given the rest again.

    milepost migrate
    python examples/balances.py 10000             # make 10,000 deposits
    milepost run examples.balances:mp             # as many times as you like; Ctrl-C ends one
    milepost processors                           # mode deferred: it moves when a save is done
    python examples/balances.py                   # look into the file
"""

from __future__ import annotations

import random
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from milepost import (
    LATEST,
    Checkpointing,
    Message,
    Milepost,
    Position,
    RecordedMessage,
    Segment,
    Trigger,
)
from milepost.processors.self_checkpointing.api import Report

mp = Milepost()
FILE = Path("balances.sqlite")
SAVE_SECONDS = 2.0
TABLE = """
create table if not exists balances (
  account text primary key, amount integer, transaction_id integer, position integer
)
"""


@dataclass(slots=True)
class Balance:
    """An amount, and the last message that is in it: one that comes again is known by it."""

    amount: int
    position: Position
    is_saved: bool = True


class Balances(Checkpointing):
    """One object for all segments that this instance has; everything is kept by segment."""

    def __init__(self) -> None:
        self.of: dict[Segment, dict[str, Balance]] = {}

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        """By account and not by segment in the file, so that segments may be split and merged."""
        with opened() as db:
            rows = db.execute("select account, amount, transaction_id, position from balances")
            self.of[segment] = {
                account: Balance(amount, Position(*at))
                for account, amount, *at in rows
                if segment.holds(account)
            }
        threading.Thread(target=save_now_and_then, args=(trigger,), daemon=True).start()

    def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
        balances = self.of[segment]
        for message in messages:
            account = str(message.key)
            known = balances.get(account) or Balance(0, Position.BEGINNING)
            if message.position > known.position:
                amount = known.amount + message.data["amount"]
                balances[account] = Balance(amount, message.position, is_saved=False)

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        """Save what has changed; then all that was handled is durable."""
        changed = {a: b for a, b in self.of[segment].items() if not b.is_saved}
        with opened() as db:
            db.executemany(
                "replace into balances values (?, ?, ?, ?)",
                [
                    (account, b.amount, b.position.transaction_id, b.position.position)
                    for account, b in changed.items()
                ],
            )
        for balance in changed.values():
            balance.is_saved = True
        return LATEST

    def on_segment_released(self, segment: Segment, up_to: Position) -> Report:
        report = self.on_checkpoint_advanced(segment, up_to)
        del self.of[segment]
        return report

    def on_segment_lost(self, segment: Segment) -> None:
        """Somebody else has it, and writes: what is not saved is his to handle."""
        self.of.pop(segment, None)


def save_now_and_then(trigger: Trigger) -> None:
    """A thread for each claim; it ends with the claim."""
    while trigger.is_active:
        trigger.request()
        threading.Event().wait(SAVE_SECONDS)


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(FILE, timeout=30)) as db, db:
        db.execute(TABLE)
        yield db


mp.processor("balances", topics=["deposits"], segments=4, delivery="at_least_once")(Balances())


def deposit(count: int) -> None:
    with mp.connect() as conn, conn.transaction():
        deposits = [
            Message(
                "Deposited",
                {"amount": random.randint(1, 100)},
                key=f"account-{random.randint(1, 50)}",
                topic="deposits",
            )
            for _ in range(count)
        ]
        mp.append(conn, *deposits)
    print(f"{count} deposits, {sum(m.data['amount'] for m in deposits)} in all")


def main() -> None:
    if len(sys.argv) > 1:
        deposit(int(sys.argv[1]))
        return
    with opened() as db:
        accounts, amount = db.execute("select count(*), total(amount) from balances").fetchone()
    print(f"{accounts} accounts hold {amount:.0f}")


if __name__ == "__main__":
    main()
