"""The torture of the archive: writers, an archiver, a remover, a compactor that also sweeps,
readers, a processor that is reset to the beginning, and a pipeline that Spark rebuilds, all of them
killed and replaced at random. Then all may catch up, and are compared with a copy of the log that a
trigger kept.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from milepost import Milepost, db
from milepost.archive import Policy, set_policy
from milepost.checkpoints import PostgresCheckpointStore
from milepost.db import Connection, one
from milepost.log.history import files_between
from milepost.processors.replay.reset import reset
from milepost.records import Position
from tests.archiving import rows_of
from tests.chaos.archive import instance
from tests.chaos.archive.instances import Instances
from tests.chaos.log.reader import Goal
from tests.chaos.log.report import Account, Entry, account
from tests.chaos.log.torture import (
    START_SECONDS,
    WRITERS,
    Torture,
    Truth,
    WriterProcess,
    Writers,
    account_of,
)
from tests.waiting import wait_until

CATCH_UP_SECONDS = 180.0
KEEP_MESSAGES = 300  # in the table, so that nearly everything is read from files
KILLS_PER_MINUTE = 100
# How often which is chosen: to reset the processor, to kill a writer, the rebuild; or another.
RESETS, WRITER_KILLS, REBUILD_KILLS = 0.1, 0.2, 0.03

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
_REBUILT = """
select transaction_id, "position" from rebuilds order by transaction_id desc, "position" desc
limit 1
"""
_UPKEEP = "select coalesce(sum(joined), 0)::bigint, coalesce(sum(swept), 0)::bigint from upkeep"

Begin = Callable[[Instances, Connection], None]


def start_all(instances: Instances, _conn: Connection) -> None:
    instances.start(*instance.ROLES)


@dataclass(slots=True)
class Counts:
    kills: int = 0
    rebuild_kills: int = 0
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    seconds: float
    messages: int
    counts: Counts
    archived: int
    removed: int
    joined: int  # files, by compactions
    swept: int  # files
    rebuilds: int
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
        counts = self.counts
        head = (
            f"seed {self.seed}, {self.seconds:.0f} s: {self.messages} messages, {self.archived} "
            f"archived, {self.removed} removed, {counts.kills} processes killed (the rebuild "
            f"{counts.rebuild_kills} times), {counts.resets} resets, {self.rebuilds} rebuilds, "
            f"{self.joined} files joined, {self.swept} files swept"
        )
        wrong = f"wrong files: {self.wrong_files or 'none'}"
        return "\n  ".join([head, wrong, *map(str, self.accounts)])


@dataclass(frozen=True, slots=True)
class ArchiveTorture:
    """`begin` starts the instances, when the writers are at work. `is_whole`: Spark rebuilds a
    pipeline, and in the end files must have been joined and swept."""

    url: str
    directory: Path
    seconds: float
    seed: int
    begin: Begin = start_all
    is_whole: bool = False
    writers: int = WRITERS

    def run(self) -> Result:
        base = Torture(self.url, self.directory, self.seconds, self.seed)
        goal, counts = Goal(), Counts()
        with db.connect(self.url) as conn:
            self.prepare(conn)
            with base.readers(goal) as readers, self.instances() as instances:
                with base.writers(self.writers) as writers:
                    self._start(writers, instances, conn)
                    self._torment(writers, instances, conn, counts)
                    self._reset(conn, counts)
                    writers.finish()
                truth = base.truth(_TRUTH)
                goal.set(truth[-1][0].position)
                self._catch_up(conn, instances, truth)
            accounts = [account_of(reader, truth) for reader in readers]
            return self._result(conn, truth, accounts, counts)

    def prepare(self, conn: Connection, *, is_archived: bool = True) -> None:
        conn.execute(instance.TABLES)
        archive = str(self.directory / "archive") if is_archived else None
        after = timedelta(0) if is_archived else None
        set_policy(conn, Policy(keep_messages=KEEP_MESSAGES, archive=archive, archive_after=after))

    @contextmanager
    def instances(self) -> Iterator[Instances]:
        instances = Instances(self.url, self.directory, random.Random(self.seed))
        try:
            yield instances
        finally:
            instances.kill_all()

    def _start(self, writers: Writers, instances: Instances, conn: Connection) -> None:
        """The time counts from when messages are being removed, however slow the machine. A rebuild
        begins then: until it ends, nothing is removed that it has not read."""
        wait_until(lambda: all(map(WriterProcess.is_at_work, writers.living)), START_SECONDS)
        self.begin(instances, conn)

        def is_removing() -> bool:
            instances.check()
            return removed(conn) > Position.BEGINNING

        wait_until(is_removing, START_SECONDS)
        if self.is_whole:
            instances.start(instance.REBUILD)

    def _torment(
        self, writers: Writers, instances: Instances, conn: Connection, counts: Counts
    ) -> None:
        end = time.monotonic() + self.seconds
        while time.monotonic() < end or counts.kills < self.fewest_kills:
            time.sleep(writers.rng.uniform(0.05, 0.4))
            choice = writers.rng.random()
            if choice < RESETS:
                self._reset(conn, counts)
                continue
            if choice < RESETS + WRITER_KILLS:
                writers.kill_one()
                writers.start()
            elif choice > 1 - REBUILD_KILLS and _is_rebuilding(instances):
                self._kill_rebuild(instances, counts)
            else:
                instances.replace(writers.rng.choice(list(instance.ROLES)))
            counts.kills += 1

        while counts.rebuild_kills < self.fewest_rebuild_kills:
            wait_until(lambda: _is_rebuilding(instances), START_SECONDS)
            self._kill_rebuild(instances, counts)
            counts.kills += 1

    def _kill_rebuild(self, instances: Instances, counts: Counts) -> None:
        instances.replace(instance.REBUILD)
        counts.rebuild_kills += 1

    @property
    def fewest_kills(self) -> int:
        """However slow the machine."""
        return int(self.seconds * KILLS_PER_MINUTE / 60)

    @property
    def fewest_rebuild_kills(self) -> int:
        return int(self.seconds / 60) if self.is_whole else 0

    def _reset(self, conn: Connection, counts: Counts) -> None:
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
        counts.resets += 1

    def _catch_up(self, conn: Connection, instances: Instances, truth: Truth) -> None:
        end = truth[-1][0].position

        def has_all() -> bool:
            instances.check()
            is_whole = not self.is_whole or (_rebuilt(conn) >= end and all(_upkeep(conn)))
            return checkpoint(conn) >= end and is_whole

        wait_until(has_all, CATCH_UP_SECONDS)

    def _result(
        self, conn: Connection, truth: Truth, accounts: list[Account], counts: Counts
    ) -> Result:
        files = files_between(conn, "milepost", Position.BEGINNING, Position(2**62, 0))
        joined, swept = _upkeep(conn)
        return Result(
            seed=self.seed,
            seconds=self.seconds,
            messages=len(truth),
            counts=counts,
            archived=sum(file.messages for file in files),
            removed=_count(conn, "witness") - _count(conn, "milepost.messages"),
            joined=joined,
            swept=swept,
            rebuilds=_count(conn, "rebuilds"),
            wrong_files=[
                file.name
                for file in files
                if list(rows_of(file)) != _witnessed(conn, file.after, file.last)
            ],
            accounts=[*accounts, account_of_effects(conn, truth)],
        )


def account_of_effects(conn: Connection, truth: Truth) -> Account:
    entries = {entry.position: entry for entry, _, _ in truth}
    rows = conn.execute("select transaction_id, position from effects order by number")
    seen = [entries.get(Position(*row), Entry(Position(*row), -1, -1)) for row in rows]
    return account("processor", [entry for entry, _, _ in truth], seen, 2)


def removed(conn: Connection) -> Position:
    query = "select removed_transaction_id, removed_position from milepost.log"
    return Position(*one(conn.execute(query).fetchone()))


def checkpoint(conn: Connection) -> Position:
    """Of the processor."""
    found = PostgresCheckpointStore(conn).load(instance.KEY)
    return Position.BEGINNING if found is None else found.position


def _is_rebuilding(instances: Instances) -> bool:
    """Or about to. One whose Java is still starting is left alone."""
    found = instances.living.get(instance.REBUILD)
    return found is not None and instance.SPARK_STARTED in found.said


def _rebuilt(conn: Connection) -> Position:
    row = conn.execute(_REBUILT).fetchone()
    return Position.BEGINNING if row is None else Position(*row)


def _upkeep(conn: Connection) -> tuple[int, int]:
    joined, swept = one(conn.execute(_UPKEEP).fetchone())
    return joined, swept


def _witnessed(conn: Connection, after: Position, last: Position) -> list[tuple[object, ...]]:
    places = (after.transaction_id, after.position, last.transaction_id, last.position)
    return conn.execute(_WITNESS, places).fetchall()


def _count(conn: Connection, table: str) -> int:
    return int(one(conn.execute(f"select count(*) from {table}".encode()).fetchone())[0])  # noqa: S608
