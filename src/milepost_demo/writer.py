"""One writer of the demo, a separate process: `python -m milepost_demo.writer`.

It appends in transactions of random length with random pauses, so that positions are drawn in
another order than transactions commit. It rolls back some savepoints and some transactions. It ends
at the end of its standard input.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Event, Thread

from milepost.app import Milepost
from milepost.db import Connection
from milepost.records import Message

ROLLED_BACK_SHARE = 0.15
LONGEST_PAUSE_SECONDS = 0.02
# Many messages first, few later: otherwise the story of the pipelines takes minutes on few cores.
CROWD_SECONDS = 15.0
LONGEST_PAUSE_LATER_SECONDS = 0.2
CUSTOMERS = 20
WRITING = "writing"
DAYS = 28


@dataclass(slots=True)
class Writer:
    mp: Milepost
    name: int
    chance: random.Random
    committed: int = 0
    rolled_back: int = 0
    began: float = field(default_factory=time.monotonic)
    _numbers: Iterator[int] = field(default_factory=count)

    def write(self, stop: Event) -> None:
        with self.mp.connect() as conn:
            print(WRITING, flush=True)  # noqa: T201 - for the process that started this one
            while not stop.is_set():
                self._pause()
                self._transaction(conn)

    def _transaction(self, conn: Connection) -> None:
        is_kept = self._is_kept()
        committed = 0
        with conn.transaction(force_rollback=not is_kept):
            for _ in range(self.chance.randint(1, 5)):
                committed += self._savepoint(conn, is_kept=is_kept)
                self._pause()
        self.committed += committed

    def _savepoint(self, conn: Connection, *, is_kept: bool) -> int:
        """Append some messages; returns how many of them will be committed."""
        stays = is_kept and self._is_kept()
        messages = [self._message(stays) for _ in range(self.chance.randint(1, 8))]
        if stays:
            self.mp.append(conn, *messages)
            return len(messages)
        with conn.transaction(force_rollback=is_kept):
            self.mp.append(conn, *messages)
        self.rolled_back += len(messages)
        return 0

    def _message(self, is_kept: bool) -> Message:
        customer = f"customer-{self.chance.randrange(CUSTOMERS)}"
        data = {
            "writer": self.name,
            "number": next(self._numbers),
            "is_kept": is_kept,
            "customer": customer,
            "day": f"2026-02-{1 + self.chance.randrange(DAYS):02}",
            "total": self.chance.randint(1, 100),
        }
        return Message("OrderPlaced", data, key=customer, topic="orders")

    def _is_kept(self) -> bool:
        return self.chance.random() > ROLLED_BACK_SHARE

    def _pause(self) -> None:
        is_crowd = time.monotonic() - self.began < CROWD_SECONDS
        longest = LONGEST_PAUSE_SECONDS if is_crowd else LONGEST_PAUSE_LATER_SECONDS
        time.sleep(self.chance.uniform(0, longest))


def _end_of_input() -> Event:
    ended = Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    Thread(target=watch, daemon=True).start()
    return ended


def main() -> None:
    schema, name = sys.argv[1:]
    writer = Writer(Milepost(schema=schema), int(name), random.Random())  # noqa: S311
    writer.write(_end_of_input())
    json.dump({"committed": writer.committed, "rolled_back": writer.rolled_back}, sys.stdout)


if __name__ == "__main__":
    main()
