"""An exactly-once processor that keeps balances, with segments that are shared by its instances. An
instance is `python -m milepost_demo.balances SCHEMA`."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import DEVNULL, Popen
from threading import Event, Thread

from milepost import db, sql
from milepost.app import Milepost
from milepost.db import Connection
from milepost.processors import Processor
from milepost.processors.segments.operations import list_segments
from milepost.records import RecordedMessage
from milepost.runtime import holds_within
from milepost_demo.place import Place

# Small, so that a kill interrupts a batch.
BATCH_SIZE = 50
SEGMENTS = 8
CLAIM_SECONDS = 2.0  # how long the segments of a dead instance wait for another one
INSTANCES = 2
TAKEOVER_SECONDS = 20.0  # how long to wait for the segments to move


@dataclass(frozen=True, slots=True)
class Balances:
    """The processor's table compared with one SQL query over the log."""

    customers: int
    wrong: int
    sum_of_log: int
    sum_of_balances: int

    @property
    def is_faultless(self) -> bool:
        return self.customers > 0 and not self.wrong


def balances_processor(mp: Milepost) -> Processor:
    deposit = sql.query("demo_deposit", mp.schema)

    @mp.processor("balances", batch_size=BATCH_SIZE, segments=SEGMENTS, claim_seconds=CLAIM_SECONDS)
    def balances(messages: list[RecordedMessage], tx: Connection) -> None:
        for message in messages:
            tx.execute(deposit, message.data)

    return balances


def make_table(mp: Milepost) -> None:
    with mp.connect() as conn:
        db.run(conn, mp.schema, "demo_balances_make")


def check(mp: Milepost) -> Balances:
    with mp.connect() as conn:
        return Balances(*db.fetch_one(conn, mp.schema, "demo_balances_check"))


class Instances:
    """Two instances that share the processor. One of them is killed repeatedly, and the other takes
    over its segments. `kills` counts the SIGKILLs so far; `takeovers` has the seconds that the
    segments of each killed instance took to move."""

    def __init__(
        self, place: Place, kill_every_seconds: float, tell: Callable[[str], None]
    ) -> None:
        self._place, self._interval, self._tell = place, kill_every_seconds, tell
        self._key = balances_processor(place.mp).definition.options.key
        self._processes = [self._start() for _ in range(INSTANCES)]
        self._stop = Event()
        self.kills = 0
        self.takeovers: list[float] = []
        self._killer = Thread(target=self._kill_at_random, name="killer", daemon=True)
        self._killer.start()

    def spare(self) -> None:
        """Stop killing, so that the remaining work can be finished. At least one kill happens,
        however short the demo is."""
        self._stop.set()
        self._killer.join()
        if not self.kills:
            self._kill_one()

    def close(self) -> None:
        self._stop.set()
        self._killer.join()
        for process in self._processes:
            process.kill()
            process.wait()

    def _kill_at_random(self) -> None:
        while not self._stop.wait(self._interval):
            self._kill_one()

    def _kill_one(self) -> None:
        victim = random.randrange(INSTANCES)  # noqa: S311
        process = self._processes[victim]
        with self._place.mp.connect() as conn:
            held = self._held_by(conn, process.pid)
            process.kill()
            process.wait()
            self.kills += 1
            self._watch_them_move(conn, process.pid, held)
        self._processes[victim] = self._start()

    def _watch_them_move(self, conn: Connection, pid: int, held: int) -> None:
        if not held:
            return
        began = time.monotonic()
        if not holds_within(lambda: not self._held_by(conn, pid), TAKEOVER_SECONDS):
            self._tell(f"balances: no instance has taken over {held} segments so far")
            return
        seconds = time.monotonic() - began
        self.takeovers.append(seconds)
        self._tell(
            f"balances: an instance was killed, the other took over its {held} segments after "
            f"{seconds:.1f} s"
        )

    def _held_by(self, conn: Connection, pid: int) -> int:
        """The number of segments of the instance with this pid, which is part of its name."""
        segments = list_segments(conn, self._place.mp.schema, self._key, count_up_to=0)
        return sum(f":{pid}:" in (segment.owner or "") for segment in segments)

    def _start(self) -> Popen[str]:
        return self._place.start("balances", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)


def main() -> None:
    mp = Milepost(schema=sys.argv[1])
    balances_processor(mp)
    mp.run()


if __name__ == "__main__":
    main()
