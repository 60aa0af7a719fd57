"""A fleet of worker processes on many channels, whose members are killed and replaced at random.

Only processes that were started here are ever killed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from milepost import Job, Milepost
from milepost.db import Connection
from tests.chaos.queue import instance
from tests.chaos.queue.history import Limit, Span, spans_of_handlers
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]

# The server's own account: when a job began to hold its slot, and when it ceased to.
_RECORD = """
create table effects (job bigint not null);
create table held (
  job bigint not null, attempt integer not null, channel text not null,
  begin timestamptz not null, "end" timestamptz, is_done boolean not null default false,
  primary key (job, attempt)
);
create function record_taken() returns trigger language plpgsql as $$
begin
  insert into held values (new.id, new.attempt, new.channel, clock_timestamp());
  return null;
end $$;
create function record_left() returns trigger language plpgsql as $$
begin
  update held set "end" = clock_timestamp(), is_done = tg_op = 'DELETE'
  where job = old.id and attempt = old.attempt;
  return coalesce(new, old);
end $$;
create trigger taken after update on milepost.jobs for each row
  when (old.status <> 'running' and new.status = 'running') execute function record_taken();
create trigger left_by_update before update on milepost.jobs for each row
  when (old.status = 'running' and new.status <> 'running') execute function record_left();
create trigger left_by_delete before delete on milepost.jobs for each row
  when (old.status = 'running') execute function record_left();
"""
_HELD = """
select job, attempt, channel, extract(epoch from begin)::float8,
  extract(epoch from coalesce("end", clock_timestamp()))::float8
from held
"""
_RUNNING = """
select id, attempt, extract(epoch from locked_until)::float8 from milepost.jobs
where status = 'running'
"""


@dataclass(frozen=True, slots=True)
class Member:
    process: subprocess.Popen[bytes]
    history: Path

    def can_be_stopped(self) -> bool:
        """It has begun to work, or has ended already."""
        return self.history.exists() or self.process.poll() is not None


@dataclass(slots=True)
class Fleet:
    url: str
    directory: Path
    seed: int
    size: int = 8
    expiries: dict[tuple[int, int], float] = field(default_factory=dict)
    kills: int = 0
    _living: list[Member] = field(default_factory=list)
    _started: int = 0
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def run(self, conn: Connection, jobs: int, pause_seconds: float, limit_seconds: float) -> None:
        """Until every job is gone; a member is killed after every pause, more or less."""
        deadline = time.monotonic() + limit_seconds
        try:
            for _ in range(self.size):
                self._start()
            while self._left(conn):
                if time.monotonic() > deadline:
                    raise AssertionError(f"{self._left(conn)} jobs are left: {self._errors()}")
                time.sleep(self._rng.uniform(0.5, 1.5) * pause_seconds)
                # Towards the end members live, so that the end is reached.
                if self._left(conn) > jobs // 20:
                    self._kill_one(conn)
        finally:
            self._end()

    def spans(self) -> list[Span]:
        """What the handlers wrote; a killed one may have been cut in the middle of a line."""
        lines = [
            line
            for file in self.directory.glob("history-*")
            for line in file.read_text().splitlines()
        ]
        return spans_of_handlers(lines, self.expiries, time.time())

    def _left(self, conn: Connection) -> int:
        row = conn.execute("select count(*) from milepost.jobs").fetchone()
        assert row is not None
        return int(row[0])

    def _start(self) -> None:
        number, self._started = self._started, self._started + 1
        history = self.directory / f"history-{number}"
        command = [sys.executable, "-m", instance.__name__, self.url, str(history), str(number)]
        with (self.directory / f"errors-{number}").open("wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stderr=errors)
        self._living.append(Member(process, history))

    def _kill_one(self, conn: Connection) -> None:
        """Nobody extends the locks of a dead one, so they can be read afterwards."""
        victim = self._living.pop(self._rng.randrange(len(self._living))).process
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.kills += 1
        self.expiries |= {(id_, attempt): at for id_, attempt, at in conn.execute(_RUNNING)}
        self._start()

    def _end(self) -> None:
        """Not before they can be stopped: one that was just started would die of the signal."""
        for member in self._living:
            wait_until(member.can_be_stopped)
            member.process.terminate()
        for member in self._living:
            assert member.process.wait(60) == 0, self._errors()

    def _errors(self) -> str:
        return "\n".join(f.read_text()[-2000:] for f in sorted(self.directory.glob("errors-*")))


def limits(count: int, rng: random.Random) -> dict[str, Limit]:
    """Different ones for each channel; some have none."""
    found = {}
    for number in range(count):
        kind = {0: "tx", 1: "batch"}.get(number % 5, "plain")
        most = None if number % 4 == 0 else rng.randint(1, 8)
        release = rng.uniform(0.002, 0.02) if number % 7 == 3 else None
        found[f"{kind}.{number:02}"] = Limit(most, release)
    return found


def prepare(mp: Milepost, conn: Connection, channels: dict[str, Limit], jobs: int) -> list[int]:
    conn.execute(_RECORD)
    for name, limit in channels.items():
        seconds = limit.release_seconds
        interval = None if seconds is None else timedelta(seconds=seconds)
        if limit != Limit():
            mp.set_channel(name, max_concurrency=limit.max_concurrency, release_interval=interval)
    names = list(channels)
    with conn.transaction():
        return mp.put(
            conn, *(Job(names[n % len(names)], n, max_attempts=1000) for n in range(jobs))
        )


def held_spans(conn: Connection) -> list[Span]:
    return [Span(*row) for row in conn.execute(_HELD)]
