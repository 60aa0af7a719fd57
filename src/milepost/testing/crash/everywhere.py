"""Run a handler once without a crash, and once for every point at which it can crash; compare what
is in the database afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from milepost.errors import CrashFound, CrashTestFailed
from milepost.pipeline.engine import SparkProcessor
from milepost.processors import Processor
from milepost.queue import Worker
from milepost.runtime import Runtime
from milepost.testing.crash.process import Outcome, run_forked
from milepost.testing.crash.stage import Outside, Stage, prepared
from milepost.testing.crash.statements import (
    FIRST_CALL,
    SURVIVED,
    Key,
    Point,
    Side,
    Statement,
    around_handler,
    chosen,
    in_both,
    points_of,
    users_first,
)
from milepost.testing.crash.words import Finding, Subject, described
from milepost.testing.snapshot import Difference, Snapshot, difference_of, ignored_columns

if TYPE_CHECKING:
    from milepost.records import Job, Message

BEAT_SECONDS = 0.1
MOST = 100
ONE_BY_ONE = ", in batches of one message"


@dataclass(frozen=True, slots=True)
class CrashReport:
    """A handler that passed. `points`: crashes that were tried, each with a run that crashed and
    one that recovered. `unreached`: those that a run did not come to. `left_out`: those that `most`
    left out. `ignored`: columns that were not compared, because their values may differ between two
    runs without a crash, too."""

    subject: str
    statements: int
    points: int
    unreached: int
    left_out: int
    ignored: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        of_all = f" of {self.points + self.left_out}" if self.left_out else ""
        return (
            f"{self.subject}: {self.points}{of_all} crashes around {self.statements} statements, "
            f"the same effects after each ({self.seconds:.1f} s)"
        )


def crash_everywhere(
    member: Processor | Worker,
    items: Sequence[Message | Job] = (),
    *,
    ignore: Sequence[str] = (),
    outside: Outside | None = None,
    timeout: float = 30.0,
    most: int | None = MOST,
    start_too: bool = False,
) -> CrashReport:
    """Prove that a crash does not change what a processor or worker does with these messages or
    jobs: it is killed before and after every statement, and it loses its connection at every
    statement of the handler and around each commit. Then it is started again, and the database is
    compared with that of a run without a crash. Raises CrashFound, which says at which statement an
    effect was doubled or lost. A handler that is given batches is also tested with batches of one
    message.

    The database is that of the fixture `mp`. It is replaced for every run, so connections that the
    test holds are ended. Afterwards it is as after one run without a crash; if something was found,
    as it was found. `ignore`: columns, as "column" or "table.column", that are not compared.
    `timeout`: of one run, in seconds. `most`: how many crashes are tried; if there are more, they
    are chosen at equal distances, first among those around the user's code. None: all. `start_too`:
    also at the statements with which Milepost starts, before it first calls the handler. They are
    the same for all handlers.
    """
    began = time.monotonic()
    _refuse_other(member)
    if most is not None and most < 1:
        raise ValueError(f"most is {most}: expected at least 1, or None for all crashes.")
    with prepared(member, items, outside) as stage:
        trials = list(_trials(member, stage, frozenset(ignore), timeout, start_too=start_too))
        for number, trial in enumerate(trials):
            trial.crashes = sum(len(each.tried) for each in trials[:number])
            left = None if most is None else most - trial.crashes
            trial.run(None if left is None else ceil(left / (len(trials) - number)))
        trials[0].leave_result()
    return CrashReport(
        str(trials[0].subject),
        sum(len(trial.statements) for trial in trials),
        sum(len(trial.tried) for trial in trials),
        sum(trial.unreached for trial in trials),
        sum(len(trial.points) - len(trial.tried) for trial in trials),
        tuple(sorted({column for trial in trials for column in trial.ignored_names()})),
        time.monotonic() - began,
    )


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


def _trials(
    member: Processor | Worker,
    stage: Stage,
    ignore: frozenset[str],
    timeout: float,
    *,
    start_too: bool,
) -> Iterator[Trial]:
    """Of the batches that the options say; and of one message each, unless that is the same: what a
    handler holds from one batch to the next is lost only between two of them."""
    trial = Trial(stage, subject_of(member), member, ignore, timeout)
    trial.run_clean(start_too=start_too)
    yield trial
    if (one_by_one := _one_by_one(member)) is None:
        return
    stage.restore()
    small = Trial(stage, replace(trial.subject, batches=ONE_BY_ONE), one_by_one, ignore, timeout)
    small.run_clean(start_too=start_too)
    if [each.key for each in small.statements] != [each.key for each in trial.statements]:
        yield small


def _one_by_one(member: Processor | Worker) -> Processor | Worker | None:
    """None if it is given no batches."""
    if isinstance(member, Worker):
        settings = member.definition.options
        if settings.handle == "job":
            return None
        return replace(
            member, definition=replace(member.definition, options=replace(settings, batch=1))
        )
    options = replace(member.definition.options, batch_size=1)
    return replace(member, definition=replace(member.definition, options=options))


def _run(member: Processor | Worker, after_loss: Callable[[], None] | None = None) -> None:
    """In the forked process, with connections of its own, until nothing is left to do. `after_loss`
    is called where the connection was lost: then the same process tries again."""
    old = member.runtime
    # A claim that was given up because of a lost connection is taken again after some beats.
    timing = replace(old.timing, beat_seconds=BEAT_SECONDS)
    runtime = Runtime(old.url, old.schema, old.max_connections, timing)
    own = _with_one_job(member) if isinstance(member, Worker) else member
    running = replace(own, runtime=runtime)
    _until_caught_up(running)
    if after_loss is not None:
        after_loss()
        _until_caught_up(running)


def _until_caught_up(member: Processor | Worker) -> None:
    member.run("caught_up")
    while not member.caught_up():  # it has appended what it reads itself
        member.run("caught_up")


def _with_one_job(worker: Worker) -> Worker:
    """One job at a time, so that the statements come in the same order in every run."""
    options = replace(worker.definition.options, concurrency=1)
    return replace(worker, definition=replace(worker.definition, options=options))


@dataclass(slots=True)
class Trial:
    """The runs with batches of one size. `crashes`: how many were tried before, and then here."""

    stage: Stage
    subject: Subject
    member: Processor | Worker
    ignore: frozenset[str]
    timeout: float
    statements: list[Statement] = field(default_factory=list, init=False)
    points: list[Point] = field(default_factory=list, init=False)
    tried: list[Point] = field(default_factory=list, init=False)
    unreached: int = field(default=0, init=False)
    crashes: int = field(default=0, init=False)
    _clean: Snapshot = field(init=False)
    _ignored: Mapping[str, frozenset[str]] = field(init=False)

    def run(self, most: int | None) -> None:
        self.tried = chosen(self.points, most)
        self.unreached = sum(not self._crash(point) for point in self.tried)

    def leave_result(self) -> None:
        """Have the database as after one run without a crash."""
        self.stage.restore()
        self._succeed()

    def ignored_names(self) -> Iterator[str]:
        """As "table.column"."""
        return (f"{table}.{each}" for table, columns in self._ignored.items() for each in columns)

    def run_clean(self, *, start_too: bool) -> None:
        """Three times. Only statements that two runs have are points. The third run claims and
        takes everything a second time: what differs then (values that are made, epochs, attempts)
        is not the effect of a crash."""
        first = self._succeed(records=True)
        self._clean = self.stage.snapshot()
        self.stage.restore()
        second = self._succeed(records=True)
        self._statements_of(first, second, start_too=start_too)
        self.stage.restore()
        self._crash_at_first_call()
        self._succeed()
        again = self.stage.snapshot()
        self._ignored = ignored_columns(self._clean, again, self.ignore)
        if differences := self._differences(again):
            lines = "\n".join(line for each in differences for line in described(each))
            raise CrashTestFailed(
                f"Two runs of {self.subject} without a crash have different effects, so a crash "
                f"cannot be judged:\n{lines}\nLet the handler do the same in each run, or pass "
                "ignore=[...] with the columns that may differ."
            )

    def _statements_of(self, first: Outcome, second: Outcome, *, start_too: bool) -> None:
        both = in_both(first.statements, second.statements)
        self.statements = both if start_too else around_handler(both)
        self.points = users_first(points_of(self.statements))

    def _crash_at_first_call(self) -> None:
        """After what was claimed or taken."""
        if self._run_forked(FIRST_CALL, records=True).has_crashed:
            self.stage.recover()
        else:
            self.stage.restore()

    def _succeed(self, *, records: bool = False) -> Outcome:
        outcome = self._run_forked(records=records)
        if outcome.error is not None:
            raise CrashTestFailed(f"{self.subject} fails without any crash:\n{outcome.error}")
        return outcome

    def _crash(self, point: Point) -> bool:
        """Whether it came to that point."""
        self.stage.restore()
        self.crashes += 1
        outcome = self._run_forked((point.statement.key, point.side))
        if not outcome.has_crashed:
            return False
        self.stage.recover()
        outcome = self._run_forked()
        differences = self._differences(self.stage.snapshot())
        if differences or outcome.error is not None:
            self._raise(Finding(self.subject, point, self.statements, differences, outcome.summary))
        return True

    def _run_forked(
        self, crash_at: tuple[Key, Side] | None = None, *, records: bool = False
    ) -> Outcome:
        has_loss = crash_at is not None and crash_at[1] in SURVIVED
        work = partial(_run, self.member, self.stage.expire if has_loss else None)
        return run_forked(work, self.timeout, crash_at, records=records)

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
            self.crashes,
        )
