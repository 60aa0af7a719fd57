"""Fill one version of a pipeline's table up to a position, in one of two ways.

Without state, ranges of the log are read by all cores, many messages each. With state, only Spark's
own stream can do it: from the beginning, in its own directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

from milepost.checkpoints import Answer, Checkpoint
from milepost.log import start_position
from milepost.pipeline.rebuild.range_size import RangeSize
from milepost.pipeline.rebuild.swap import RebuildSession
from milepost.pipeline.run import PipelineStatus, RangeLoop, StreamSession
from milepost.pipeline.source import Range
from milepost.pipeline.write import CheckpointMoved, Written
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.runtime import State

FOLLOW_SECONDS = 1.0


@dataclass(slots=True, kw_only=True)
class FollowedStatus(PipelineStatus):
    """Reports, and calls `followed` from time to time."""

    followed: Callable[[], None] = lambda: None
    last_error: str = field(default="", init=False)
    _followed_at: float = 0.0

    def change(self, conn: Connection | None, state: State, error: str | None = None) -> None:
        self.last_error = error or self.last_error
        PipelineStatus.change(self, conn, state, error)

    def tick(self, conn: Connection, spark_phases: Callable[[], dict[str, float]]) -> None:
        PipelineStatus.tick(self, conn, spark_phases)
        if self.clock() - self._followed_at >= FOLLOW_SECONDS:
            self._followed_at = self.clock()
            self.followed()


@dataclass(slots=True)
class RangeRebuild(RebuildSession):
    """Reads explicit ranges, and writes them as the stream's batches are written."""

    _loop: RangeLoop = field(init=False)
    _size: RangeSize = field(init=False)

    def _begin(self) -> None:
        found = self._first()
        self._at = found.position
        self._loop = RangeLoop(
            setup=self.setup,
            planner=self._planner,
            writer=self.setup.writer(self._conn, self.status.owner, found.epoch),
            status=self.status,
            reports=self._conn,
            after_merge=self._merged,
        )
        prepared = self._loop.writer.prepare(self._loop.output(Range(self._at, self._at)))
        is_summed = prepared.merge.sums is not None
        self._size = RangeSize(self.max_messages, self.setup.cores, is_summed=is_summed)

    def _position(self) -> Position:
        return self._at

    def _reach(self, aim: Position) -> None:
        while self._at < aim:
            self._write_to(aim)

    def _merged(self, at: Position, written: Written) -> None:
        self._size.saw(written.copied)
        self._advanced(at)

    def _first(self) -> Checkpoint:
        start = partial(start_position, self._conn, self._options.start_from, self.setup.schema)
        return self._store.first(self._options.key, start, self.status.owner)

    def _write_to(self, aim: Position) -> None:
        try:
            self._loop.write(self._planner.ranges(self._at, aim, lambda: self._size.messages))
        except CheckpointMoved as moved:
            # Somebody else has moved the checkpoint. Nothing of the range was written.
            if moved.answer in (Answer.MISSING, Answer.FENCED):
                raise self._explained(moved.answer) from None
            self._at = self._first().position
        except Exception as error:
            # Its staging is dropped with it, while tasks are copying.
            if not self._conn.closed and self._store.load(self._options.key) is None:
                raise self._explained(Answer.MISSING) from error
            raise


@dataclass(slots=True)
class StreamRebuild(RebuildSession):
    """Runs Spark's stream until it has caught up. The stream decides where exactly that is."""

    def _begin(self) -> None:
        self.status.followed = self._follow

    def _position(self) -> Position:
        return self._checkpoint() or Position.BEGINNING

    def _reach(self, aim: Position) -> None:
        while (at := self._checkpoint()) is None or at < aim:
            self._catch_up()
            if self._checkpoint() == at:
                raise self._failed(
                    f"its checkpoint is {at}, and the log has no more messages that would bring it "
                    f"to {aim}, the checkpoint of the old version."
                )

    def _checkpoint(self) -> Position | None:
        """None before Spark's directory is made: the checkpoint is stored after that."""
        found = self._store.load(self._options.key)
        return None if found is None else found.position

    def _catch_up(self) -> None:
        session = StreamSession(self.setup, self.status, Event(), built=self._options.version)
        session.open()
        with session:
            try:
                session.run("caught_up")
            except CheckpointMoved as moved:
                raise self._explained(moved.answer) from None
        self._follow()

    def _follow(self) -> None:
        self._advanced(self._position())
