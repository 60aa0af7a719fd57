"""Balances in memory, saved to files every few seconds: a handler that checkpoints itself.

Handling touches memory alone. What was handled is durable when it is in a file, so the checkpoint
moves then, and no further. Kill it, or freeze it, at any time: whoever is next loads the files and
is given the rest, and what a former owner still saves is not read.

    milepost migrate
    python examples/balances.py 10000             # make 10,000 deposits
    milepost run examples.balances:mp             # as many times as you like; Ctrl-C ends one
    milepost processors                           # handled, and durable: when a save is done
    python examples/balances.py                   # look into the files
"""

from __future__ import annotations

import random
import sys
import threading
from dataclasses import dataclass

from milepost import (
    LATEST,
    Checkpointing,
    FileStore,
    Message,
    Milepost,
    Position,
    RecordedMessage,
    Segment,
    Snapshot,
    Trigger,
)
from milepost.processors.self_checkpointing.api import Report

mp = Milepost()
STORE = FileStore("balances-saved")
SAVE_SECONDS = 2.0


@dataclass(slots=True)
class Held:
    """A segment that this instance has claimed."""

    trigger: Trigger
    saved: Snapshot
    amounts: dict[str, int]  # by account
    position: Position  # of the last message that is in them


class Balances(Checkpointing):
    """One object for all segments that this instance has; everything is kept by segment."""

    def __init__(self) -> None:
        self.held: dict[Segment, Held] = {}

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        """From the load on, nothing that a former owner saves counts."""
        saved = STORE.load(trigger)
        self.held[segment] = Held(trigger, saved, dict(saved.entries), trigger.start)
        threading.Thread(target=save_now_and_then, args=(trigger,), daemon=True).start()

    def __call__(self, messages: list[RecordedMessage], segment: Segment) -> None:
        held = self.held[segment]
        for message in messages:
            if not held.saved.includes(message):
                account = str(message.key)
                held.amounts[account] = held.amounts.get(account, 0) + message.data["amount"]
        held.position = messages[-1].position

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Report:
        """Save; then all that was handled is durable."""
        held = self.held[segment]
        STORE.save(held.trigger, held.amounts, held.position)
        return LATEST

    def on_segment_released(self, segment: Segment, up_to: Position) -> Report:
        report = self.on_checkpoint_advanced(segment, up_to)
        del self.held[segment]
        return report

    def on_segment_lost(self, segment: Segment) -> None:
        """Somebody else has it, and is given what is not saved."""
        self.held.pop(segment, None)


def save_now_and_then(trigger: Trigger) -> None:
    """A thread for each claim; it ends with the claim."""
    while trigger.is_active:
        trigger.request()
        threading.Event().wait(SAVE_SECONDS)


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
    amounts = STORE.read().entries
    print(f"{len(amounts)} accounts hold {sum(amounts.values())}")


if __name__ == "__main__":
    main()
