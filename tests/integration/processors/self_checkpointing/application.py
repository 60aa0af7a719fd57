"""A program with a model in memory, as a user would write it, for tests that kill it.

Run as `python -m tests.integration.processors.self_checkpointing.application URL STALL_AT`. The
model adds up what it is given, and writes a snapshot, sum and position, into a table when it is
asked to. It says on stdout where every claim begins and every message that it handles; after
STALL_AT messages (0: never) it hangs in its handler for ever.
"""

from __future__ import annotations

import sys
import threading

import psycopg

from milepost import Checkpointing, Milepost, Position, RecordedMessage, Segment, Trigger

NAME = "sums"
EVERY = 30
BATCH_SIZE = 10
CLAIM_SECONDS = 600.0  # no busy machine loses such a claim; after a kill, the test lets it expire
TABLE = "create table snapshots (segment integer primary key, sum bigint, position text, epoch int)"


class Sum(Checkpointing):
    def __init__(self, url: str, stall_at: int) -> None:
        self.url, self.stall_at = url, stall_at
        self.sum = self.handled = 0
        self.position = Position.BEGINNING
        self.epoch = 0

    def on_segment_claimed(self, segment: Segment, trigger: Trigger) -> None:
        self.epoch = trigger.epoch
        with psycopg.connect(self.url) as conn:
            row = conn.execute("select sum, position from snapshots").fetchone()
        self.sum, self.position = (0, trigger.start) if row is None else (row[0], _parse(row[1]))
        say(f"claimed {trigger.start}")

    def __call__(self, messages: list[RecordedMessage], trigger: Trigger) -> None:
        for message in messages:
            if message.position > self.position:  # else it is in the snapshot already
                self.sum += message.data["number"]
                self.position = message.position
            self.handled += 1
            say(f"handled {message.position}")
        if self.handled % EVERY == 0:
            trigger.request()
        if self.handled == self.stall_at:
            say("stalled")
            threading.Event().wait()

    def on_checkpoint_advanced(self, segment: Segment, requested: Position) -> Position:
        with psycopg.connect(self.url) as conn:
            conn.execute(
                "insert into snapshots values (%s, %s, %s, %s) on conflict (segment) do update "
                "set sum = excluded.sum, position = excluded.position, epoch = excluded.epoch "
                "where snapshots.epoch <= excluded.epoch",
                [segment.id, self.sum, str(self.position), self.epoch],
            )
        return self.position


def _parse(text: str) -> Position:
    return Position.parse(text)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(url: str, stall_at: str) -> None:
    mp = Milepost(url)
    mp.processor(
        NAME, delivery="at_least_once", batch_size=BATCH_SIZE, poll_seconds=0.05,
        claim_seconds=CLAIM_SECONDS,
    )(Sum(url, int(stall_at)))  # fmt: skip
    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
