"""Apply one range of the log to a PostgreSQL sink, exactly once.

The stream, catching up and the rebuild all come here: with the range, and with the rows it gives.
Executors stage; then one short transaction moves the checkpoint from the range's start to its end
and merges. If the checkpoint is not where the range starts, nothing of it is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from milepost import sql
from milepost.checkpoints import Answer, CheckpointKey, store_statement
from milepost.db import one, translated
from milepost.errors import CompetingPipeline
from milepost.pipeline.columns import columns_of
from milepost.pipeline.merge import Merge, prepare_merge
from milepost.pipeline.names import TURNS, staging_name
from milepost.pipeline.staging import Staged, Staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from milepost.db import Connection
    from milepost.pipeline.columns import Column
    from milepost.pipeline.ranges import Range
    from milepost.pipeline.sinks import PostgresSink


class CheckpointMoved(Exception):
    """Somebody put the checkpoint elsewhere, or made another version the active one: ask again."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.name.lower())


@dataclass(frozen=True, slots=True)
class SparkBatch:
    """A batch of a stateful query, which may be replayed without moving the checkpoint."""

    run: str  # whose: the id of the checkpoint directory
    number: int


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a range: how many rows it gave, and how long each phase took."""

    rows: int
    is_skipped: bool = False
    phases_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pending:
    """A range whose rows are staged, to be merged."""

    staging: Staging
    staged: Staged
    merge: Merge
    clock: _Phases


@dataclass(frozen=True, slots=True)
class _Prepared:
    schema_json: str
    columns: list[Column]
    merge: Merge
    stagings: dict[int, Staging] = field(default_factory=dict)  # by turn


@dataclass(slots=True)
class RangeWriter:
    """Writes for one version of a pipeline, on a connection of its own, one range at a time."""

    key: CheckpointKey
    sink: PostgresSink
    conn: Connection
    conninfo: str = field(repr=False)  # for the executors
    owner: str
    schema: str
    epoch: int = 0
    _prepared: _Prepared | None = field(default=None, init=False)

    def clean(self) -> None:
        """Sweep out what an earlier driver left behind; it is left there if a task still copies."""
        for turn in range(TURNS):
            self._staging(turn).clean(self.conn)

    def prepare(self, df: DataFrame) -> None:
        """Make or check the target for such rows, before there are any."""
        self._prepare(df)

    def apply(self, df: DataFrame, range_: Range, batch: SparkBatch | None = None) -> Written:
        """Write what `df` gives for the range. Raises where the checkpoint is elsewhere."""
        # A batch with state must not be computed twice.
        messages = range_.width if batch is None else None
        return self.merge(range_, self.staging_of(df, messages)(), batch)

    def staging_of(
        self, df: DataFrame, messages: int | None, turn: int = 0
    ) -> Callable[[], Pending]:
        """What stages the rows, to be called in any thread: while those of one turn are merged, the
        other's may be staged. `messages`: about how many they come from, if that is known."""
        clock = _Phases()
        prepared = self._prepare(df)
        if turn not in prepared.stagings:
            prepared.stagings[turn] = self._staging(turn, prepared.merge)
            prepared.stagings[turn].create(self.conn, prepared.merge.staged)
        staging = prepared.stagings[turn]
        clock.lap("prepare")

        def stage() -> Pending:
            clock.lap("wait")
            staged = staging.stage(df, prepared.columns, messages)
            clock.lap("stage")
            return Pending(staging, staged, prepared.merge, clock)

        return stage

    def merge(self, range_: Range, pending: Pending, batch: SparkBatch | None = None) -> Written:
        """Merge what is staged, and move the checkpoint over the range."""
        staging, staged, clock = pending.staging, pending.staged, pending.clock
        clock.lap("wait")
        try:
            with translated(self.schema), self.conn.transaction():
                is_new = self._advance(range_, batch)
                if is_new and staged.rows:
                    self._check_staged(staging, staged)
                    pending.merge.run(self.conn, staging.name, staged)
        except psycopg.Error as error:
            # Asked after the rollback, which a lost connection has not survived.
            if self.conn.closed:
                raise
            explained = pending.merge.explain(error, self.conn, staging.name, staged)
            if explained is None:
                raise
            raise explained from error
        clock.lap("merge")
        staging.sweep(self.conn)
        clock.lap("sweep")
        return Written(staged.rows if is_new else 0, not is_new, clock.laps_ms)

    def _prepare(self, df: DataFrame) -> _Prepared:
        """Once, and again if the output changes its columns, as a pivot does."""
        # One call to the JVM; the schema as an object would be a tree of them.
        schema_json = df._jdf.schema().json()
        if self._prepared is None or self._prepared.schema_json != schema_json:
            columns = columns_of(self.key.processor, df.schema)
            merge = prepare_merge(self.conn, self.key, self.sink, columns, self.schema)
            self._prepared = _Prepared(schema_json, columns, merge)
        return self._prepared

    def _staging(self, turn: int, merge: Merge | None = None) -> Staging:
        name = staging_name(self.key.processor, self.key.version, turn)
        if merge is None:
            return Staging(self.conninfo, self.schema, name)
        return Staging(self.conninfo, self.schema, name, merge.is_ordered, merge.sums)

    def _advance(self, range_: Range, batch: SparkBatch | None) -> bool:
        """Move the checkpoint first: its row lock keeps competitors out of the merge. Whether
        there is something new to merge."""
        if range_.after != range_.last:
            statement = store_statement(
                self.key, range_.after, range_.last, schema=self.schema, epoch=self.epoch,
                owner=self.owner,
            )  # fmt: skip
            answer = Answer(one(self.conn.execute(*statement).fetchone())[0])
            if answer is not Answer.STORED:
                self._refuse(answer)
        return True if batch is None else self._note(batch)

    def _note(self, batch: SparkBatch) -> bool:
        parameters = self._of() | {"run": batch.run, "batch": batch.number}
        row = self.conn.execute(sql.query("note_spark_batch", self.schema), parameters).fetchone()
        return bool(one(row)[0])

    def _refuse(self, answer: Answer) -> None:
        if answer in (Answer.OLDER, Answer.MISSING, Answer.FENCED):
            raise CheckpointMoved(answer)
        parameters = self._of() | {"processor": self.key.processor, "segment": self.key.segment}
        row = self.conn.execute(sql.query("checkpoint", self.schema), parameters).fetchone()
        other = None if row is None else row[3]
        name = answer.name.lower()
        raise CompetingPipeline(self.key.processor, self.owner, other, name)

    def _check_staged(self, staging: Staging, staged: Staged) -> None:
        parameters = {
            "staging": staging.name,
            "attempts": staged.attempts,
            "rows": staged.copied,
        }
        self.conn.execute(sql.query("check_staged", self.schema), parameters)

    def _of(self) -> dict[str, Any]:
        return {"pipeline": self.key.processor, "version": self.key.version}


@dataclass(slots=True)
class _Phases:
    """How long each phase took."""

    laps_ms: dict[str, float] = field(default_factory=dict)
    _at: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps_ms[name] = self.laps_ms.get(name, 0.0) + round((now - self._at) * 1000, 1)
        self._at = now
