"""The torture: writers that are killed and replaced, readers that come and go, one report.

The truth is the table once every writer has ended: a writer that is killed cannot know whether
its last commit succeeded. Only processes that were started here are ever killed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from milepost import db
from milepost.log import Selection
from milepost.records import Position
from tests.chaos.log import writer
from tests.chaos.log.reader import SELECTIONS, Goal, RestlessReader
from tests.chaos.log.report import Account, Entry, Journal, Report, account, check_promises
from tests.waiting import wait_until

# Every message, with its topic and its key.
Truth: TypeAlias = list[tuple[Entry, str, str | None]]
WRITERS = 12
WAIT_SECONDS = 60.0
START_SECONDS = 150.0  # for as many starts of Python at once, on two cores that others use too
ROOT = Path(__file__).parents[3]

_WRITERS_CONNECTED = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = %s
"""
_TRUTH = """
select transaction_id, "position", (data ->> 'writer')::int, (data ->> 'number')::int, topic, key
from milepost.messages order by transaction_id, "position"
"""


@dataclass(frozen=True, slots=True)
class WriterProcess:
    writer: int
    process: subprocess.Popen[bytes]
    directory: Path

    @classmethod
    def start(cls, url: str, number: int, seed: int, directory: Path) -> WriterProcess:
        command = [sys.executable, "-m", "tests.chaos.log.writer", url, str(number), str(seed)]
        with (
            (directory / f"{number}.journal").open("wb") as journal,
            (directory / f"{number}.errors").open("wb") as errors,
        ):
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=journal, stderr=errors
            )
        return cls(number, process, directory)

    def journal(self) -> Journal:
        return Journal.parse(self.writer, (self.directory / f"{self.writer}.journal").read_text())

    def check(self) -> None:
        """A writer ends when it is told to or killed, never of itself."""
        if self.process.poll() not in (None, 0):
            errors = (self.directory / f"{self.writer}.errors").read_text()
            raise RuntimeError(f"writer {self.writer} ended by itself:\n{errors}")

    def is_at_work(self) -> bool:
        self.check()
        return (self.directory / f"{self.writer}.journal").stat().st_size > 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def finish(self) -> None:
        """The end of its stdin tells it to go; it ends its transaction first."""
        self.process.communicate(timeout=WAIT_SECONDS)
        self.check()


@dataclass(slots=True)
class Writers:
    """The living and the dead: as many at any time as there were at first."""

    url: str
    directory: Path
    rng: random.Random
    living: list[WriterProcess] = field(default_factory=list)
    dead: list[WriterProcess] = field(default_factory=list)

    @property
    def started(self) -> list[WriterProcess]:
        return self.dead + self.living

    def start(self) -> None:
        number, seed = len(self.started), self.rng.getrandbits(32)
        self.living.append(WriterProcess.start(self.url, number, seed, self.directory))

    def kill_one(self) -> None:
        victim = self.living.pop(self.rng.randrange(len(self.living)))
        self.dead.append(victim)
        victim.check()
        victim.kill()

    def finish(self) -> None:
        for process in self.living:
            process.finish()


@dataclass(frozen=True, slots=True)
class Torture:
    url: str
    directory: Path  # for the journals
    seconds: float
    seed: int

    def run(self) -> Report:
        goal = Goal()
        with self.readers(goal) as readers:
            with self.writers() as writers:
                self._torment(writers)
                writers.finish()
            truth = self.truth()
            goal.set(truth[-1][0].position if truth else Position.BEGINNING)
        entries = [entry for entry, _, _ in truth]
        journals = [process.journal() for process in writers.started]
        return Report(
            self.seed,
            self.seconds,
            len(truth),
            sum(journal.acknowledged for journal in journals),
            len(writers.dead),
            check_promises(entries, journals),
            [account_of(reader, truth) for reader in readers],
        )

    @contextmanager
    def readers(self, goal: Goal) -> Iterator[list[RestlessReader]]:
        """At the end each has reached the goal; an error of one is raised here."""
        readers = [
            RestlessReader(self.url, name, selection, goal, random.Random(f"{self.seed} {name}"))
            for name, selection in SELECTIONS.items()
        ]
        with ThreadPoolExecutor(len(readers)) as pool:
            running = [pool.submit(reader.run) for reader in readers]
            try:
                yield readers
            except BaseException:
                goal.stop.set()
                raise
            for future in running:
                future.result()

    @contextmanager
    def writers(self, count: int = WRITERS) -> Iterator[Writers]:
        writers = Writers(self.url, self.directory, random.Random(self.seed))
        try:
            for _ in range(count):
                writers.start()
            yield writers
        finally:
            for process in writers.living:
                process.kill()

    def _torment(self, writers: Writers) -> None:
        """The time counts from when every writer is at work, however slow the machine."""
        wait_until(lambda: all(p.is_at_work() for p in writers.living), START_SECONDS)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(writers.rng.uniform(0.1, 1.0))
            writers.kill_one()
            writers.start()

    def truth(self, query: str = _TRUTH) -> Truth:
        """Taken when the last session is gone: that of a killed writer may commit yet."""
        with db.connect(self.url) as conn:
            wait_until(
                lambda: (
                    conn.execute(_WRITERS_CONNECTED, [writer.APPLICATION_NAME]).fetchone() == (0,)
                )
            )
            return [
                (Entry(Position(transaction_id, position), author, number), topic, key)
                for transaction_id, position, author, number, topic, key in conn.execute(
                    query.encode()
                )
            ]


def account_of(reader: RestlessReader, truth: Truth) -> Account:
    expected = [entry for entry, topic, key in truth if _selects(reader.selection, topic, key)]
    return account(reader.name, expected, reader.seen, reader.sessions)


def _selects(selection: Selection, topic: str, key: str | None) -> bool:
    is_of_topic = selection.topics is None or topic in selection.topics
    return is_of_topic and (selection.segment is None or selection.segment.holds(key))
