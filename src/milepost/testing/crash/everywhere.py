"""Run a handler once without a crash, and once for every point at which it can crash; compare what
is in the database afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import make_conninfo

from milepost import db, log, queue
from milepost.errors import CrashFound, CrashTestFailed
from milepost.pipeline.engine import SparkProcessor
from milepost.processors import Processor
from milepost.queue import Worker
from milepost.records import Job, Message
from milepost.runtime import Runtime
from milepost.testing.crash.process import Outcome, run_forked
from milepost.testing.crash.statements import (
    Point,
    Statement,
    around_handler,
    in_both,
    points_of,
    users_first,
)
from milepost.testing.crash.words import Finding, Subject, described
from milepost.testing.databases import Databases, name_of_test_database
from milepost.testing.snapshot import (
    OUTSIDE,
    Difference,
    Snapshot,
    difference_of,
    take_snapshot,
    unstable_columns,
)

if TYPE_CHECKING:
    from milepost.db import Connection

MAINTENANCE = "postgres"


@dataclass(frozen=True, slots=True)
class Outside:
    """What a handler changes outside the database: how to read it, as a JSON value, and how to put
    it back to where it was before the first run."""

    read: Callable[[], Any]
    reset: Callable[[], None]


@dataclass(frozen=True, slots=True)
class CrashReport:
    """A handler that passed. `points`: crashes that were tried, each with a run that crashed and one
    that recovered. `unreached`: those that a run did not come to. `ignored`: columns that were not
    compared, because two runs without a crash have other values in them, too."""

    subject: str
    statements: int
    points: int
    unreached: int
    ignored: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.subject}: {self.points} crashes around {self.statements} statements, the same "
            f"effects after each ({self.seconds:.1f} s)"
        )


def crash_everywhere(
    member: Processor | Worker,
    items: Sequence[Message | Job] = (),
    *,
    ignore: Sequence[str] = (),
    outside: Outside | None = None,
    timeout: float = 30.0,
    start_too: bool = False,
) -> CrashReport:
    """Prove that a crash does not change what a processor or worker does with these messages or
    jobs: it is killed before and after every statement and around each commit, started again, and
    the database is compared with that of a run without a crash. Raises CrashFound, which says at
    which statement an effect was doubled or lost.

    The database is that of the fixture `mp`. It is replaced for every run, so connections that the
    test holds are ended. Afterwards it is as after one run without a crash; if something was found,
    as it was found. `ignore`: columns, as "column" or "table.column", that are not compared.
    `timeout`: of one run, in seconds. `start_too`: also at the statements with which Milepost
    starts, before it first calls the handler. They are the same for all handlers.
    """
    began = time.monotonic()
    _refuse_other(member)
    with prepared(member, items, outside) as stage:
        trial = Trial(stage, subject_of(member), partial(_run, member), frozenset(ignore), timeout)
        return trial.run(began, start_too=start_too)


def _refuse_other(member: object) -> None:
    if isinstance(member, SparkProcessor) or not isinstance(member, Processor | Worker):
        raise TypeError(
            f"{member!r} cannot be tested by crash_everywhere: expected a processor or a worker, as "
            "@mp.processor or @mp.worker has made it, or mp.workers[channel] for tasks. Pipelines "
            "and processors on Spark run in processes that it cannot kill one by one."
        )


def subject_of(member: Processor | Worker) -> Subject:
    if isinstance(member, Worker):
        return Subject("worker", member.name, member.definition.is_transactional)
    definition = member.definition
    if definition.participants:
        return Subject("self_checkpointing", member.name, has_tx=False)
    return Subject("processor", member.name, definition.options.delivery == "exactly_once")


def _run(member: Processor | Worker) -> None:
    """In the forked process, with connections of its own, until nothing is left to do."""
    old = member.runtime
    runtime = Runtime(old.url, old.schema, old.max_connections, old.timing)
    own = _with_one_job(member) if isinstance(member, Worker) else member
    running = replace(own, runtime=runtime)
    running.run("caught_up")
    while not running.caught_up():  # it has appended what it reads itself
        running.run("caught_up")


def _with_one_job(worker: Worker) -> Worker:
    """One job at a time, so that the statements come in the same order in every run."""
    options = replace(worker.definition.options, concurrency=1)
    return replace(worker, definition=replace(worker.definition, options=options))


@dataclass(frozen=True, slots=True)
class Stage:
    """The database in which all runs happen, and a copy of how it was before the first one."""

    url: str = field(repr=False)
    schema: str
    databases: Databases
    name: str
    copy: str
    outside: Outside | None

    def restore(self) -> None:
        # The server itself would look again only after a tenth of a second.
        self.databases.wait_for_no_session(self.name)
        self.databases.drop_database(self.name)
        self.databases.copy_database(self.copy, self.name)
        if self.outside is not None:
            self.outside.reset()

    def recover(self) -> None:
        """After a crash: its sessions are gone, the time for which it held its work is over, and
        what failed because of a lost connection is due again."""
        self.databases.wait_for_no_session(self.name)
        with db.connect(self.url) as conn:
            db.run(conn, self.schema, "testing_expire")
            db.run(conn, self.schema, "testing_recover")

    def snapshot(self) -> Snapshot:
        with db.connect(self.url) as conn:
            found = take_snapshot(conn, self.schema)
        if self.outside is None:
            return found
        rows = {**found.rows, OUTSIDE: [{"value": self.outside.read()}]}
        return replace(found, rows=rows)


@contextmanager
def prepared(
    member: Processor | Worker, items: Sequence[Message | Job], outside: Outside | None
) -> Iterator[Stage]:
    url, schema = member.runtime.url, member.runtime.schema
    name = name_of_test_database(url)
    with db.connect(url) as conn, conn.transaction():
        _add(conn, items, schema)
    databases = Databases(make_conninfo(url, dbname=MAINTENANCE))
    try:
        databases.end_sessions(name)
        copy = databases.create_database("test_prepared", template=name)
        try:
            yield Stage(url, schema, databases, name, copy, outside)
        finally:
            databases.drop_database(copy)
    finally:
        databases.close()


def _add(conn: Connection, items: Sequence[Message | Job], schema: str) -> None:
    if messages := [item for item in items if isinstance(item, Message)]:
        log.append(conn, *messages, schema=schema)
    if jobs := [item for item in items if isinstance(item, Job)]:
        queue.put(conn, *jobs, schema=schema)


@dataclass(slots=True)
class Trial:
    stage: Stage
    subject: Subject
    work: Callable[[], None]
    ignore: frozenset[str]
    timeout: float
    _clean: Snapshot = field(init=False)
    _ignored: Mapping[str, frozenset[str]] = field(init=False)
    _statements: list[Statement] = field(init=False)

    def run(self, began: float, *, start_too: bool) -> CrashReport:
        self._run_clean()
        chosen = self._statements if start_too else around_handler(self._statements)
        points = users_first(points_of(chosen))
        unreached = sum(not self._crash(point) for point in points)
        self.stage.restore()
        self._succeed()
        return CrashReport(
            str(self.subject),
            len(chosen),
            len(points),
            unreached,
            tuple(sorted(f"{t}.{c}" for t, cs in self._ignored.items() for c in cs)),
            time.monotonic() - began,
        )

    def _run_clean(self) -> None:
        """Twice: what differs then is not the effect of a crash."""
        first = self._succeed(records=True)
        before = self.stage.snapshot()
        self.stage.restore()
        second = self._succeed(records=True)
        self._clean = self.stage.snapshot()
        self._statements = in_both(first.statements, second.statements)
        self._ignored = ignored_columns(before, self._clean, self.ignore)
        if differences := self._differences(before):
            lines = "\n".join(line for each in differences for line in described(each))
            raise CrashTestFailed(
                f"Two runs of {self.subject} without a crash have different effects, so a crash "
                f"cannot be judged:\n{lines}\nLet the handler do the same in each run, or pass "
                "ignore=[...] with the columns that may differ."
            )

    def _succeed(self, *, records: bool = False) -> Outcome:
        outcome = run_forked(self.work, self.timeout, records=records)
        if outcome.error is not None:
            raise CrashTestFailed(f"{self.subject} fails without any crash:\n{outcome.error}")
        return outcome

    def _crash(self, point: Point) -> bool:
        """Whether it came to that point."""
        self.stage.restore()
        outcome = run_forked(self.work, self.timeout, (point.statement.key, point.side))
        if not outcome.has_crashed:
            return False
        self.stage.recover()
        outcome = run_forked(self.work, self.timeout)
        differences = self._differences(self.stage.snapshot())
        if differences or outcome.error is not None:
            self._raise(
                Finding(self.subject, point, self._statements, differences, outcome.summary)
            )
        return True

    def _differences(self, found: Snapshot) -> list[Difference]:
        tables = dict.fromkeys([*self._clean.rows, *found.rows])
        compared = (
            difference_of(
                table,
                self._clean.rows.get(table, []),
                found.rows.get(table, []),
                self._ignored.get(table, frozenset()),
            )
            for table in tables
        )
        return [each for each in compared if each is not None]

    def _raise(self, finding: Finding) -> None:
        raise CrashFound(
            finding.text(),
            finding.point.statement.text,
            finding.point.side,
            [line for each in finding.differences for line in described(each)],
        )


def ignored_columns(
    first: Snapshot, second: Snapshot, ignore: frozenset[str]
) -> dict[str, frozenset[str]]:
    """By table: those that the user names, those that PostgreSQL fills in, and those that differ
    between two runs without a crash. Pure."""
    found: dict[str, frozenset[str]] = {}
    for table, rows in second.rows.items():
        named = {name for name in ignore if "." not in name} | {
            name.removeprefix(f"{table}.") for name in ignore if name.startswith(f"{table}.")
        }
        unstable = frozenset[str]()
        if len(first.rows.get(table, [])) == len(rows) and table != OUTSIDE:
            unstable = unstable_columns(first.rows[table], rows)
        if columns := second.generated.get(table, frozenset()) | unstable | named:
            found[table] = columns
    return found
