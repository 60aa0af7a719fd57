"""The torture of the archive: writers, an archiver, a remover, readers, and a processor that is
reset to the beginning, all of them killed and replaced at random. Then all may catch up, and are
compared with a copy of the log that a trigger kept.

Only processes that were started here are ever killed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from milepost import Milepost, db
from milepost.archive import Policy, set_policy
from milepost.checkpoints import PostgresCheckpointStore
from milepost.db import Connection, one
from milepost.log.history import files_between
from milepost.log.history.cold import rows_of
from milepost.processors.replay.reset import reset
from milepost.records import Position
from tests.chaos.archive import instance
from tests.chaos.log.reader import Goal
from tests.chaos.log.report import Account, Entry, account
from tests.chaos.log.torture import (
    START_SECONDS,
    Torture,
    Truth,
    WriterProcess,
    Writers,
    account_of,
)
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
CATCH_UP_SECONDS = 180.0
KEEP_MESSAGES = 300  # in the table, so that nearly everything is read from files

_TRUTH = """
select transaction_id, "position", (data ->> 'writer')::int, (data ->> 'number')::int, topic, key
from witness order by transaction_id, "position"
"""
_WITNESS = """
select type, data::text, key, topic, metadata::text, id::text, transaction_id, "position",
  recorded_at
from witness
where (transaction_id, "position") > (%s, %s) and (transaction_id, "position") <= (%s, %s)
order by transaction_id, "position"
"""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    seconds: float
    messages: int
    kills: int
    resets: int
    archived: int
    removed: int
    wrong_files: list[str]  # whose content is not what the table had
    accounts: list[Account]

    @property
    def lost(self) -> int:
        return sum(account.lost for account in self.accounts)

    @property
    def doubled(self) -> int:
        return sum(account.doubled for account in self.accounts)

    @property
    def is_clean(self) -> bool:
        return not self.wrong_files and all(account.is_clean for account in self.accounts)

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.messages} messages, {self.archived} "
            f"archived, {self.removed} removed, {self.kills} processes killed, {self.resets} resets"
        )
        wrong = f"wrong files: {self.wrong_files or 'none'}"
        return "\n  ".join([head, wrong, *map(str, self.accounts)])


@dataclass(slots=True)
class Instances:
    """One of each role at any time."""

    url: str
    directory: Path  # for what they say
    rng: random.Random
    living: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0

    def start(self, role: str) -> None:
        with (self.directory / f"{self.started}.{role}.errors").open("wb") as errors:
            command = [sys.executable, "-m", instance.__name__, role, self.url]
            command.append(str(self.rng.getrandbits(32)))
            self.living[role] = subprocess.Popen(command, cwd=ROOT, stderr=errors)
        self.started += 1

    def replace(self, role: str) -> None:
        self.check()
        self.kill(role)
        self.start(role)

    def kill(self, role: str) -> None:
        victim = self.living.pop(role)
        victim.kill()
        victim.wait()

    def check(self) -> None:
        """They end when they are killed, never of themselves."""
        for role, process in self.living.items():
            if process.poll() is not None:
                said = [file.read_text() for file in self.directory.glob(f"*.{role}.errors")]
                raise RuntimeError(f"the {role} ended by itself:\n{''.join(said)[-4000:]}")

    def kill_all(self) -> None:
        for role in list(self.living):
            self.kill(role)


@dataclass(frozen=True, slots=True)
class ArchiveTorture:
    url: str
    directory: Path
    seconds: float
    seed: int

    def run(self) -> Result:
        base = Torture(self.url, self.directory, self.seconds, self.seed)
        goal, counts = Goal(), Counts()
        with db.connect(self.url) as conn:
            self._prepare(conn)
            with base.readers(goal) as readers, self._instances() as instances:
                with base.writers() as writers:
                    self._torment(writers, instances, conn, counts)
                    writers.finish()
                truth = base.truth(_TRUTH)
                goal.set(truth[-1][0].position)
                self._catch_up(conn, instances, truth)
            accounts = [account_of(reader, truth) for reader in readers]
            return self._result(conn, truth, accounts, counts)

    def _prepare(self, conn: Connection) -> None:
        conn.execute(instance.TABLES)
        policy = Policy(
            keep_messages=KEEP_MESSAGES,
            archive=str(self.directory / "archive"),
            archive_after=timedelta(0),
        )
        set_policy(conn, policy)

    @contextmanager
    def _instances(self) -> Iterator[Instances]:
        instances = Instances(self.url, self.directory, random.Random(self.seed))
        try:
            for role in instance.ROLES:
                instances.start(role)
            yield instances
        finally:
            instances.kill_all()

    def _torment(
        self, writers: Writers, instances: Instances, conn: Connection, counts: Counts
    ) -> None:
        """The time counts from when messages are being removed, however slow the machine."""
        wait_until(lambda: all(map(WriterProcess.is_at_work, writers.living)), START_SECONDS)
        wait_until(lambda: _removed(conn) > Position.BEGINNING, START_SECONDS)
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            time.sleep(writers.rng.uniform(0.05, 0.4))
            choice = writers.rng.random()
            if choice < 0.1:
                self._reset(conn)
                counts.resets += 1
            elif choice < 0.3:
                writers.kill_one()
                writers.start()
                counts.kills += 1
            else:
                instances.replace(writers.rng.choice(list(instance.ROLES)))
                counts.kills += 1

    def _reset(self, conn: Connection) -> None:
        """To the beginning: nearly all of it is only in files."""
        mp = Milepost(self.url)
        reset(
            conn,
            mp.connect,
            mp.schema,
            instance.KEY,
            "beginning",
            [lambda tx, _position: tx.execute("truncate effects")],
        )

    def _catch_up(self, conn: Connection, instances: Instances, truth: Truth) -> None:
        def has_all() -> bool:
            instances.check()
            return _checkpoint(conn) >= truth[-1][0].position

        wait_until(has_all, CATCH_UP_SECONDS)

    def _result(
        self, conn: Connection, truth: Truth, accounts: list[Account], counts: Counts
    ) -> Result:
        entries = {entry.position: entry for entry, _, _ in truth}
        rows = conn.execute("select transaction_id, position from effects order by number")
        seen = [entries.get(Position(*row), Entry(Position(*row), -1, -1)) for row in rows]
        accounts = [*accounts, account_of_effects(truth, seen)]
        files = files_between(conn, "milepost", Position.BEGINNING, Position(2**62, 0))
        wrong = []
        for file in files:
            place = (*_pair(file.after), *_pair(file.last))
            if list(rows_of(file)) != conn.execute(_WITNESS, place).fetchall():
                wrong.append(file.name)
        return Result(
            self.seed,
            self.seconds,
            len(truth),
            counts.kills,
            counts.resets,
            sum(file.messages for file in files),
            _count(conn, "witness") - _count(conn, "milepost.messages"),
            wrong,
            accounts,
        )


@dataclass(slots=True)
class Counts:
    kills: int = 0
    resets: int = 0


def account_of_effects(truth: Truth, seen: list[Entry]) -> Account:
    return account("processor", [entry for entry, _, _ in truth], seen, 2)


def _removed(conn: Connection) -> Position:
    query = "select removed_transaction_id, removed_position from milepost.log"
    return Position(*one(conn.execute(query).fetchone()))


def _checkpoint(conn: Connection) -> Position:
    found = PostgresCheckpointStore(conn).load(instance.KEY)
    return Position.BEGINNING if found is None else found.position


def _count(conn: Connection, table: str) -> int:
    return int(one(conn.execute(f"select count(*) from {table}".encode()).fetchone())[0])  # noqa: S608


def _pair(position: Position) -> tuple[int, int]:
    return position.transaction_id, position.position
