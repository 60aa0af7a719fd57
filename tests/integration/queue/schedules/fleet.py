"""Schedulers in processes of their own, which are killed, frozen and cut off while they tick. One
is `python -m tests.integration.queue.schedules.fleet URL`. They merge no ticks, however late these
are: a busy machine may hold all of them up for long."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, TypeAlias

from milepost import Job, Milepost, Repeat
from milepost.db import Connection
from milepost.queue.schedules import scheduler
from tests.integration.queue.schedules.scheduling import column, next_at, put_jobs
from tests.waiting import wait_until
from tests.zygote import Process, start

Harm: TypeAlias = Literal["kill", "freeze", "cut off"]
EVERY = timedelta(seconds=0.25)
SESSIONS = """
select pid from pg_stat_activity
where application_name = 'milepost schedules' and datname = current_database()
"""
LATENESS = """
select extract(epoch from created_at - (%s::timestamptz + row_number * %s))::float8 from (
  select created_at, row_number() over (order by id) from milepost.jobs where channel = 'reports'
) as j
"""


@dataclass(slots=True)
class Fleet:
    """`harm` hits one scheduler while all of them run, and then replaces it."""

    url: str
    conn: Connection
    size: int
    harms: int = 0
    _programs: list[Process] = field(default_factory=list)

    def start(self) -> None:
        while len(self._programs) < self.size:
            self._programs.append(start(["python", "-m", __name__, self.url]))
        wait_until(lambda: len(self._sessions()) == self.size)

    def harm(self, harm: Harm) -> None:
        self.wait_for_ticks(2)
        victim = self._programs.pop(0)
        if harm == "cut off":
            self.conn.execute("select pg_terminate_backend(%s)", [self._sessions()[0]])
        else:
            victim.send_signal(signal.SIGKILL if harm == "kill" else signal.SIGSTOP)
        self.wait_for_ticks(4)
        if harm == "freeze":
            victim.send_signal(signal.SIGCONT)
        victim.end()
        self.harms += 1
        self.start()

    def wait_for_ticks(self, count: int) -> None:
        before = put_jobs(self.conn)
        wait_until(lambda: put_jobs(self.conn) >= before + count)

    def ticks(self) -> int:
        """Since the schedule was registered."""
        begun = column(self.conn, "begun_at", "often")
        return int((next_at(self.conn, "often") - begun) // EVERY) - 1

    def lateness(self) -> list[float]:
        """Of each job in seconds, if job N is that of tick N."""
        begun = column(self.conn, "begun_at", "often")
        return [seconds for (seconds,) in self.conn.execute(LATENESS, [begun, EVERY])]

    def close(self) -> None:
        for program in self._programs:
            program.end()

    def _sessions(self) -> list[int]:
        return [pid for (pid,) in self.conn.execute(SESSIONS)]


@contextmanager
def fleet_of(size: int, url: str, conn: Connection) -> Iterator[Fleet]:
    fleet = Fleet(url, conn, size)
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.close()


def main(url: str) -> None:
    scheduler.TAKE_OVER = scheduler.MISSED = timedelta(days=1)
    mp = Milepost(url)
    mp.schedule("often", Repeat(EVERY), Job("reports"))
    mp.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
