"""Apply one range of the log to a PostgreSQL sink, exactly once.

The stream, catching up and the rebuild all use this, with the range and the rows that it gives.
Executors stage the rows. Then one short transaction moves the checkpoint from the range's start to
its end and merges. If the checkpoint is not at the range's start, nothing of it is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg

from milepost import db, sql
from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.errors import CompetingPipeline, InvalidOutput
from milepost.log import EVERYTHING, Selection
from milepost.pipeline.names import TURNS, staging_name
from milepost.pipeline.sinks import ToLog, ToQueue
from milepost.pipeline.source import Range
from milepost.pipeline.write.column_types import columns_of
from milepost.pipeline.write.sift import (
    VIOLATED,
    marked,
    prepare_sift,
    refuse_other_conditions,
)
from milepost.pipeline.write.staging import Staged, Staging
from milepost.pipeline.write.to_items import item_merge
from milepost.pipeline.write.to_table import table_merge
from milepost.processors import put_letter
from milepost.steps import drive
from milepost.telemetry import otel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from milepost.db import Connection, Statement
    from milepost.pipeline.expectations import Expectations
    from milepost.pipeline.sinks import PostgresSink
    from milepost.pipeline.write.column_types import Column
    from milepost.pipeline.write.merge import Merge
    from milepost.pipeline.write.sift import Sift
    from milepost.records import Position


class CheckpointMoved(Exception):
    """Somebody moved the checkpoint, or made another version the active one. Load it again."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.name.lower())


class LetterGone(Exception):
    """A dead letter was dropped, or retried by somebody else, meanwhile. Nothing was written."""


@dataclass(frozen=True, slots=True)
class SparkBatch:
    """A batch of a stateful query, which may be replayed without moving the checkpoint."""

    run: str  # the id of the checkpoint directory
    number: int


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a range: how many rows it gave, how many of them were copied after sums, and
    how long each phase took."""

    rows: int
    copied: int = 0
    phases_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pending:
    """Staged rows of a range, to be merged."""

    staging: Staging
    staged: Staged
    merge: Merge
    sift: Sift | None
    clock: _Phases


@dataclass(frozen=True, slots=True)
class _Prepared:
    schema: StructType
    columns: list[Column]  # of staging
    merge: Merge
    sift: Sift | None
    stagings: dict[int, Staging] = field(default_factory=dict)  # by turn


@dataclass(slots=True)
class RangeWriter:
    """Writes one version of a pipeline on one connection, one range at a time."""

    key: CheckpointKey
    sink: PostgresSink
    conn: Connection
    conninfo: str = field(repr=False)  # for the executors
    owner: str
    schema: str
    epoch: int = 0
    cores: int = 1  # of Spark
    expectations: Expectations | None = None
    selection: Selection = EVERYTHING  # of the messages that it reads
    _prepared: _Prepared | None = field(default=None, init=False)

    def clean(self) -> None:
        """Empty the staging that an earlier driver has left, unless a task still copies into it."""
        for turn in range(TURNS):
            self._staging(turn).clean(self.conn)

    def apply(self, df: DataFrame, range_: Range, batch: SparkBatch | None = None) -> Written:
        """Write what `df` gives for the range. Raises if the checkpoint is not at its start."""
        # A batch with state must not be computed twice.
        stage = self.staging_of(df, range_.width, may_repeat=batch is None)
        return self.merge(range_, stage(), batch)

    def staging_of(
        self,
        df: DataFrame,
        messages: int,
        turn: int = 0,
        *,
        may_repeat: bool = True,
    ) -> Callable[[], Pending]:
        """A function that stages the rows, for any thread: while the rows of one turn are merged,
        those of the other may be staged. `messages`: about how many the rows come from."""
        clock = _Phases()
        prepared = self.prepare(df)
        if turn not in prepared.stagings:
            merge = prepared.merge
            staging = self._staging(
                turn, is_ordered=merge.is_ordered, sums=merge.sums, spark_sums=merge.spark_sums
            )
            staging.create(self.conn, merge.staged)
            prepared.stagings[turn] = staging
        staging = prepared.stagings[turn]
        rows = df if self.expectations is None else marked(df, self.expectations)
        clock.lap("prepare")

        def stage() -> Pending:
            clock.lap("wait")
            staged = staging.stage(rows, prepared.columns, messages, may_repeat)
            clock.lap("stage")
            return Pending(staging, staged, prepared.merge, prepared.sift, clock)

        return stage

    def merge(self, range_: Range, pending: Pending, batch: SparkBatch | None = None) -> Written:
        """Merge what is staged, and move the checkpoint over the range."""
        spanning = (
            nullcontext()
            if otel is None
            else otel.batch(self.key.processor, pending.clock.seconds, lambda: self._traces(range_))
        )
        with spanning:
            return self._merge(range_, pending, lambda: self._advance(range_, batch))

    def _traces(self, range_: Range) -> list[dict[str, str]]:
        """The spans in which messages of the range were appended."""
        rows = db.fetch_all(
            self.conn,
            self.schema,
            "range_traces",
            after_transaction_id=range_.after.transaction_id,
            after_position=range_.after.position,
            last_transaction_id=range_.last.transaction_id,
            last_position=range_.last.position,
            **self.selection.parameters(),
        )
        return [{"traceparent": parent, "tracestate": state} for parent, state in rows]

    def merge_letter(self, letter: int, at: Position, pending: Pending) -> Written:
        """Merge what the message of a dead letter gives, and remove the letter."""
        return self._merge(Range(at, at), pending, lambda: self._claim(letter))

    def set_aside(self, range_: Range, at: Position, facts: Mapping[str, Any]) -> None:
        """Move the checkpoint over a range of which nothing is written, and keep its message as a
        dead letter."""
        with db.translated(self.schema), self.conn.transaction():
            self._advance(range_, None)
            drive(put_letter(self.schema, self.key, at, dict(facts)), self._rows)

    def _merge(self, range_: Range, pending: Pending, guard: Callable[[], bool]) -> Written:
        """The guard comes first in the transaction: whether there is something new to merge."""
        staged, merge, clock = pending.staged, pending.merge, pending.clock
        clock.lap("wait")
        try:
            with db.translated(self.schema), self.conn.transaction():
                is_new = guard()
                if is_new and staged.rows:
                    self._execute("check_staged", staged, {"rows": staged.copied})
                    if pending.sift is not None:
                        pending.sift.run(self.conn, self.schema, range_, staged)
                    self._execute(merge.query, staged, merge.parameters)
        except psycopg.Error as error:
            # After the rollback. A lost connection cannot be asked.
            if self.conn.closed:
                raise
            explained = merge.explain(error, self.conn, staged) or self._null(error)
            if explained is None:
                raise
            raise explained from error
        clock.lap("merge")
        pending.staging.sweep(self.conn)
        clock.lap("sweep")
        rows, copied = (staged.rows, staged.copied) if is_new else (0, 0)
        return Written(rows, copied, clock.laps_ms)

    def prepare(self, df: DataFrame) -> _Prepared:
        """Make or check the target for such rows. Once, and again if the columns of the output
        change, as those of a pivot do."""
        if self._prepared is None or self._prepared.schema != df.schema:
            columns = columns_of(self.key.processor, df.schema)
            merge = prepare_merge(self.conn, self.key, self.sink, columns, schema=self.schema)
            self._prepared = self._sifted(df, _Prepared(df.schema, columns, merge, None))
        return self._prepared

    def _null(self, error: psycopg.Error) -> InvalidOutput | None:
        """Not for a column that the output does not have: then the table was changed."""
        column = error.diag.column_name
        output = [] if self._prepared is None else self._prepared.columns
        if not isinstance(error, pg.NotNullViolation) or all(c.name != column for c in output):
            return None
        reason = "is null in some row, but the table allows no null."
        return InvalidOutput(self.key.processor, column, reason)

    def _sifted(self, df: DataFrame, prepared: _Prepared) -> _Prepared:
        """With expectations, rows are not summed before they are staged: a sum of rows is no row
        that could be counted or set aside."""
        expectations = self.expectations
        if expectations is None:
            return prepared
        refuse_other_conditions(self.key.processor, df, expectations)
        sift = prepare_sift(
            self.conn, self.key, self.sink, expectations, prepared.columns, schema=self.schema
        )
        staged = [*prepared.merge.staged, VIOLATED]
        merge = replace(prepared.merge, staged=staged, sums=None, spark_sums=None)
        return replace(prepared, columns=[*prepared.columns, VIOLATED], merge=merge, sift=sift)

    def _staging(self, turn: int, **merged: Any) -> Staging:
        name = staging_name(self.key.processor, self.key.version, turn)
        return Staging(self.conninfo, self.schema, name, cores=self.cores, **merged)

    def _advance(self, range_: Range, batch: SparkBatch | None) -> bool:
        """Move the checkpoint first: its row lock keeps competitors out of the merge. Whether
        there is something new to merge."""
        if range_.after != range_.last:
            store = PostgresCheckpointStore(self.conn, self.schema)
            answer = store.store(
                self.key, range_.after, range_.last, epoch=self.epoch, owner=self.owner
            )
            if answer in (Answer.OLDER, Answer.MISSING, Answer.FENCED):
                raise CheckpointMoved(answer)
            if answer is not Answer.STORED:
                found = store.load(self.key)
                other, name = None if found is None else found.owner, answer.name.lower()
                raise CompetingPipeline(self.key.processor, self.owner, other, name)
        return True if batch is None else self._note(batch)

    def _claim(self, letter: int) -> bool:
        """Its deletion is the guard: who deletes it writes its rows. And the version must still be
        this driver's, as for a range."""
        of_letter = {"id": letter, "epoch": self.epoch, **self.key.parameters()}
        ((epoch, is_claimed),) = self._rows(
            (sql.query("pipeline_letter_claim", self.schema), of_letter)
        )
        if epoch != self.epoch:
            raise CheckpointMoved(Answer.MISSING if epoch is None else Answer.FENCED)
        if not is_claimed:
            raise LetterGone
        return True

    def _note(self, batch: SparkBatch) -> bool:
        (is_new,) = db.fetch_one(
            self.conn,
            self.schema,
            "note_spark_batch",
            pipeline=self.key.processor,
            version=self.key.version,
            run=batch.run,
            batch=batch.number,
        )
        return bool(is_new)

    def _rows(self, statement: Statement) -> list[Any]:
        return self.conn.execute(*statement).fetchall()

    def _execute(self, query: str, staged: Staged, parameters: Mapping[str, Any]) -> None:
        self.conn.execute(sql.query(query, self.schema), {**staged.parameters(), **parameters})


def prepare_merge(
    conn: Connection,
    pipeline: CheckpointKey,
    sink: PostgresSink,
    columns: Sequence[Column],
    schema: str,
) -> Merge:
    """Check the output against the sink, before anything is written."""
    if isinstance(sink, ToLog | ToQueue):
        return item_merge(pipeline.processor, sink, columns)
    return table_merge(conn, pipeline, sink, columns, schema=schema)


@dataclass(slots=True)
class _Phases:
    """How long each phase took."""

    laps_ms: dict[str, float] = field(default_factory=dict)
    _at: float = field(default_factory=time.perf_counter)
    _began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps_ms[name] = self.laps_ms.get(name, 0.0) + round((now - self._at) * 1000, 1)
        self._at = now
