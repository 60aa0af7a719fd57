"""Run a handler once without a crash, and once for every point at which it can crash; compare what
is in the database afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from milepost.errors import CrashFound, CrashTestFailed
from milepost.pipeline.engine import SparkProcessor
from milepost.processors import Processor
from milepost.queue import Worker
from milepost.runtime import Runtime
from milepost.testing.crash.process import Outcome, run_forked
from milepost.testing.crash.stage import Outside, Stage, prepared
from milepost.testing.crash.statements import (
    Point,
    Statement,
    around_handler,
    in_both,
    points_of,
    users_first,
)
from milepost.testing.crash.words import Finding, Subject, described
from milepost.testing.snapshot import Difference, Snapshot, difference_of, ignored_columns

if TYPE_CHECKING:
    from milepost.records import Job, Message

BEAT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class CrashReport:
    """A handler that passed. `points`: crashes that were tried, each with a run that crashed and
    one that recovered. `unreached`: those that a run did not come to. `ignored`: columns that were
    not compared, because their values may differ between two runs without a crash, too."""

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
            f"{member!r} cannot be tested by crash_everywhere: expected a processor or a worker, "
            "as @mp.processor or @mp.worker has made it, or mp.workers[channel] for tasks. "
            "Pipelines and processors on Spark run in processes that it cannot kill one by one."
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
    # A claim that was given up because of a lost connection is taken again after some beats.
    timing = replace(old.timing, beat_seconds=BEAT_SECONDS)
    runtime = Runtime(old.url, old.schema, old.max_connections, timing)
    own = _with_one_job(member) if isinstance(member, Worker) else member
    running = replace(own, runtime=runtime)
    running.run("caught_up")
    while not running.caught_up():  # it has appended what it reads itself
        running.run("caught_up")


def _with_one_job(worker: Worker) -> Worker:
    """One job at a time, so that the statements come in the same order in every run."""
    options = replace(worker.definition.options, concurrency=1)
    return replace(worker, definition=replace(worker.definition, options=options))


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
    _crashes: int = field(default=0, init=False)

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
        self._crashes += 1
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
            self._crashes,
        )
