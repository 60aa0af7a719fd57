"""From an empty table to the swap: fill the new version to the end of the log, then follow the old
version until both have the same checkpoint."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import psycopg
from psycopg import errors as pg

from milepost.checkpoints import Answer, CheckpointKey, PostgresCheckpointStore
from milepost.errors import CompetingPipeline, MilepostError, RebuildFailed
from milepost.pipeline import versions
from milepost.pipeline.rebuild.range_size import DEFAULT_MAX_MESSAGES
from milepost.pipeline.run import is_passing
from milepost.pipeline.source import Planner, Range
from milepost.pipeline.spark.failures import explained, in_short
from milepost.pipeline.spark.jvm import driver_ended, refuse_ended_driver
from milepost.records import Position
from milepost.runtime import ServerLost, Session

if TYPE_CHECKING:
    from milepost.db import Connection
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.rebuild.fill import FollowedStatus
    from milepost.pipeline.run import Setup
    from milepost.pipeline.versions import Swap
    from milepost.runtime import State, Until

Phase: TypeAlias = Literal["filling", "catching up", "swapping"]
PATIENT_TRIES = 3  # after these, the old version's driver is told to wait
HOLD_SECONDS = 10.0
MOST_TRIES = 60
LET_PASS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come. The numbers of messages are estimates by their positions."""

    version: int
    phase: Phase
    done: int
    total: int


@dataclass(slots=True)
class Swapped:
    """What outlives a session that loses its server."""

    has_tried: bool = False
    replaces: int | None = None  # in the last attempt to swap
    position: Position | None = None  # of the new version; None before the swap


@dataclass(slots=True)
class RebuildSession(Session):
    """On one connection. After a lost server the next session continues at the checkpoint. How the
    table is filled is in fill.py."""

    setup: Setup
    status: FollowedStatus
    max_messages: int | None
    watch: Callable[[Progress], None]
    swapped: Swapped
    _conn: Connection = field(init=False)
    _planner: Planner = field(init=False)
    _phase: Phase = field(default="filling", init=False)
    _start: Position = field(default=Position.BEGINNING, init=False)
    _aim: Position = field(default=Position.BEGINNING, init=False)
    _at: Position = field(default=Position.BEGINNING, init=False)
    _total: int = field(default=0, init=False)

    def _open(self) -> None:
        refuse_ended_driver()
        self._conn = self._stack.enter_context(self.setup.connected("milepost rebuild"))
        planner = Planner(self.setup.source(self._few))
        self._planner = self._stack.enter_context(closing(planner))

    @abstractmethod
    def _begin(self) -> None:
        """Before anything is filled."""

    @abstractmethod
    def _position(self) -> Position:
        """The new version's checkpoint."""

    @abstractmethod
    def _reach(self, aim: Position) -> None:
        """Fill up to there, or further if it cannot stop in the middle."""

    def run(self, until: Until) -> None:  # noqa: ARG002 - it ends with the swap
        if self._has_swapped_before():
            return
        self.status.change(self._conn, "rebuilding")
        try:
            self._begin()
            self._fill()
            self.status.write(self._conn)  # after the swap the row belongs to the new driver
            self._swap()
        except (KeyboardInterrupt, SystemExit):
            with suppress(psycopg.Error, MilepostError):
                self.status.change(self._conn, "stopped")
            raise
        self.swapped.position = self._position()

    def report_end(self, state: State, error: str | None = None) -> None:
        """After the swap the row belongs to the new driver."""
        if state == "failed":
            self.status.change(self._conn, state, error)

    def meaning_of(self, error: Exception) -> Exception:
        if ended := driver_ended(error):
            return ended
        if is_passing(error):
            return ServerLost(in_short(error))
        return explained(error, self._options)

    def _has_swapped_before(self) -> bool:
        """Whether the swap was committed although its answer was lost with the server."""
        active = versions.active_of(self._versions())
        if not self.swapped.has_tried or active is None or active.version != self._options.version:
            return False
        self.swapped.position = active.checkpoint or Position.BEGINNING
        return True

    def _versions(self) -> list[versions.Version]:
        return versions.load_versions(self._conn, self._options.name, self.setup.schema)

    def _fill(self) -> None:
        """To the end of the log, and further while much is appended meanwhile."""
        self._start = self._at = self._position()
        while True:
            self._aim_at(self._planner.horizon())
            self._reach(self._aim)
            left = Range(self._position(), self._planner.horizon())
            if self._planner.about(left) < self._few:
                return

    @property
    def _few(self) -> int:
        """So many messages are written fast enough to follow the old version."""
        return DEFAULT_MAX_MESSAGES if self.max_messages is None else self.max_messages

    def _swap(self) -> None:
        """Follow the old version until a swap finds that this one has caught up with it."""
        for attempt in range(1, MOST_TRIES + 1):
            old = self._old()
            if old is not None and attempt > PATIENT_TRIES:
                key = CheckpointKey(self._options.name, old.version)
                versions.hold(self._conn, key, self.setup.schema, HOLD_SECONDS)
                old = self._old()
            if old is not None and old.checkpoint is not None:
                self._phase = "catching up"
                self._aim_at(max(old.checkpoint, self._aim))
                self._reach(old.checkpoint)
            self._phase = "swapping"
            self._advanced(self._position())
            if self._try(None if old is None else old.version) == "swapped":
                return
        raise self._failed(
            f"version {self._options.version} is filled, but could not be swapped in {MOST_TRIES} "
            "tries: a long transaction reads the target, or the old version moves too fast. The "
            "old version is still shown. Run the rebuild again: it continues from there."
        )

    def _try(self, old: int | None) -> Swap:
        self.swapped.has_tried, self.swapped.replaces = True, old
        try:
            answer = versions.swap(
                self._conn,
                self._options.name,
                self.setup.schema,
                old,
                to_version=self._options.version,
            )
        except pg.LockNotAvailable:
            # A long transaction reads the target, or a batch takes long. Other readers wait behind
            # this swap: let them read first.
            time.sleep(LET_PASS_SECONDS)
            return "behind"
        if answer == "missing":
            raise self._failed(
                f"version {self._options.version} was dropped, or the log has no messages for it "
                "yet."
            )
        return answer  # if the active version changed, the next attempt finds out

    def _old(self) -> versions.Version | None:
        old = versions.active_of(self._versions())
        if old is not None and old.version == self._options.version:
            raise self._failed(
                f"version {old.version} was swapped in by somebody else: another rebuild, or a "
                "rollback."
            )
        return old

    def _explained(self, answer: Answer) -> RebuildFailed | CompetingPipeline:
        """Why the checkpoint cannot be moved any more."""
        if answer is Answer.MISSING:
            return self._failed(
                f"version {self._options.version} was dropped while it was being filled."
            )
        found = self._store.load(self._options.key)
        other = None if found is None else found.owner
        return CompetingPipeline(self._options.name, self.status.owner, other, "fenced")

    def _failed(self, reason: str) -> RebuildFailed:
        return RebuildFailed(self._options.name, reason)

    @property
    def _store(self) -> PostgresCheckpointStore:
        return PostgresCheckpointStore(self._conn, self.setup.schema)

    @property
    def _options(self) -> PipelineOptions:
        return self.setup.options

    def _aim_at(self, aim: Position) -> None:
        self._aim = aim
        self._total = self._planner.about(Range(self._start, aim))
        self._advanced(self._at)

    def _advanced(self, at: Position) -> None:
        self._at = at
        left = self._planner.about(Range(at, self._aim))
        done = max(self._total - left, 0)
        self.watch(Progress(self._options.version, self._phase, done, self._total))
