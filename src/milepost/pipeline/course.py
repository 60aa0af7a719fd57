"""The way of a new version from an empty table to the swap: to the end of the log, then behind the
old version until it has come as far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from psycopg import errors as pg

from milepost.checkpoints import CheckpointKey
from milepost.errors import RebuildFailed
from milepost.pipeline import versions
from milepost.pipeline.fill import Filler, RangeFill, Site, StreamFill
from milepost.pipeline.ranges import Range
from milepost.records import Position

if TYPE_CHECKING:
    from milepost.pipeline.definition import PipelineOptions
    from milepost.pipeline.planner import Planner
    from milepost.pipeline.versions import Swap

Phase: TypeAlias = Literal["filling", "catching up", "swapping"]
PATIENT_TRIES = 3  # then the old version's driver is asked to wait
HOLD_SECONDS = 10.0
MOST_TRIES = 60
LET_PASS_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come. Messages are counted by their positions: about."""

    version: int
    phase: Phase
    done: int
    total: int


@dataclass(slots=True)
class Course:
    """On one connection; the next one begins where the checkpoint stands."""

    site: Site
    planner: Planner
    watch: Callable[[Progress], None]
    has_tried: bool = field(default=False, init=False)
    replaces: int | None = field(default=None, init=False)  # the last that it tried to
    _phase: Phase = field(default="filling", init=False)
    _start: Position = field(default=Position.BEGINNING, init=False)
    _aim: Position = field(default=Position.BEGINNING, init=False)
    _at: Position = field(default=Position.BEGINNING, init=False)
    _total: int = field(default=0, init=False)

    def filler(self) -> Filler:
        if self.site.definition.options.stateful:
            return StreamFill(self.site, self._advanced)
        return RangeFill(self.site, self.planner, self._advanced)

    def fill(self, filler: Filler) -> None:
        """To the end of the log, and on for as long as much is appended meanwhile."""
        self._start = self._at = filler.at()
        while True:
            self._aim_at(self.planner.horizon())
            filler.reach(self._aim)
            left = Range(filler.at(), self.planner.horizon())
            if self.planner.about(left) < self.site.max_messages:
                return

    def swap(self, filler: Filler) -> int | None:
        """Follow the old version until a swap finds that this one has come as far; which one it
        has replaced."""
        for attempt in range(1, MOST_TRIES + 1):
            old = self._old()
            if old is not None and attempt > PATIENT_TRIES:
                key = CheckpointKey(self._options.name, old.version)
                versions.hold(self.site.conn, key, self.site.schema, HOLD_SECONDS)
                old = self._old()
            if old is not None and old.checkpoint is not None:
                self._phase = "catching up"
                self._aim_at(max(old.checkpoint, self._aim))
                filler.reach(old.checkpoint)
            self._phase = "swapping"
            self._advanced(filler.at())
            if self._try(None if old is None else old.version) == "swapped":
                return None if old is None else old.version
        raise RebuildFailed(
            self._options.name,
            f"version {self._options.version} is filled, but could not be swapped in {MOST_TRIES} "
            "tries: a long transaction reads the target, or the old version moves too fast. Run "
            "the rebuild again: it goes on from there.",
        )

    def _try(self, old: int | None) -> Swap:
        self.has_tried, self.replaces = True, old
        try:
            answer = versions.swap(
                self.site.conn, self._options.name, self.site.schema, old, self._options.version
            )
        except pg.LockNotAvailable:
            # Somebody reads the target in a long transaction, or a batch takes its time. Others
            # that want to read have been queueing behind us: let them pass.
            time.sleep(LET_PASS_SECONDS)
            return "behind"
        if answer == "missing":
            raise RebuildFailed(
                self._options.name,
                f"version {self._options.version} was dropped, or there is nothing for it in the "
                "log yet.",
            )
        return answer  # if the active version changed, it is asked for anew

    def _old(self) -> versions.Version | None:
        known = versions.load_versions(self.site.conn, self._options.name, self.site.schema)
        old = versions.active_of(known)
        if old is not None and old.version == self._options.version:
            raise RebuildFailed(
                self._options.name,
                f"version {old.version} was swapped in by somebody else: another rebuild, or a "
                "rollback.",
            )
        return old

    @property
    def _options(self) -> PipelineOptions:
        return self.site.definition.options

    def _aim_at(self, aim: Position) -> None:
        self._aim = aim
        self._total = self.planner.about(Range(self._start, aim))
        self._advanced(self._at)

    def _advanced(self, at: Position) -> None:
        self._at = at
        left = self.planner.about(Range(at, self._aim))
        done = max(self._total - left, 0)
        self.watch(Progress(self._options.version, self._phase, done, self._total))
